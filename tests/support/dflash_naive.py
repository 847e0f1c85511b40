"""DFlash as its layout describes it, in float64, one row and one head at a time.

Stateless: the whole context is given every time, and nothing is fused, cached or shared with
the package. Returns logits rows, and for DFlash 2 the scores of the candidates of each slot.
"""

from typing import Any

import numpy as np


def propose(
    raw: dict[str, Any], tensors: dict[str, Any], lender, taps: np.ndarray, pending: int, k: int
):
    """Logits (k, vocab) of a block of k + 1 rows at positions len(taps)…, or of k rows where the
    first row gives a draft token, too; taps (positions, layers · hidden)."""
    w = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
    inner = raw["dflash_config"]
    first = 0 if raw.get("sample_from_anchor") else 1
    block = [pending] + [inner["mask_token_id"]] * (k - 1 + first)
    x = lender.embedding.astype(np.float64)[block] * inner.get("input_embedding_scale", 1.0)
    context = norm(taps.astype(np.float64) @ w["fc.weight"].T, w["hidden_norm.weight"], raw)
    for i in range(raw["num_hidden_layers"]):
        part = {
            name.removeprefix(f"layers.{i}."): value
            for name, value in w.items()
            if name.startswith(f"layers.{i}.")
        }
        x = layer(raw, part, i, x, context)
    hidden = norm(x[first:], w["norm.weight"], raw)
    logits = hidden @ lender.matrix.astype(np.float64).T * inner.get("output_multiplier", 1.0)
    cap = raw.get("final_logit_softcapping")
    return hidden, np.tanh(logits / cap) * cap if cap else logits


def candidate_scores(
    raw: dict[str, Any], tensors: dict[str, Any], hidden, logits, i: int, before: int
):
    """DFlash 2: token → score for slot i, given the token before it."""
    w = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
    projected = w["candidate_selector.hidden_projection.weight"] @ hidden[i]
    best = np.argsort(logits[i])[-raw["dflash_config"]["selector_top_k"] :]
    edge = w["candidate_selector.predecessor_codebook"][before] * projected
    return {
        int(token): logits[i, token]
        + float(edge @ w["candidate_selector.successor_codebook"][token])
        for token in best
    }


def layer(raw, part, i, x, context):
    def attend(h):
        return attention(raw, part, i, h, context)

    def mlp(h):
        gate = h @ part["mlp.gate_proj.weight"].T
        return (gate / (1 + np.exp(-gate)) * (h @ part["mlp.up_proj.weight"].T)) @ part[
            "mlp.down_proj.weight"
        ].T

    x = x + convolved(
        raw, part, "attention_conv", norm(x, part["input_layernorm.weight"], raw), attend
    )
    h = norm(x, part["post_attention_layernorm.weight"], raw)
    return x + convolved(raw, part, "mlp_conv", h, mlp)


def attention(raw, part, i, h, context):
    dim, heads, kv_heads = raw["head_dim"], raw["num_attention_heads"], raw["num_key_value_heads"]
    n, rows = len(context), len(h)
    sliding = (raw.get("layer_types") or ["full_attention"] * 99)[i] == "sliding_attention"
    causal = sliding if raw.get("is_causal") is None else raw["is_causal"]
    source = np.concatenate([context, h])
    found = np.zeros((rows, heads, dim))
    for head in range(heads):
        kv = head // (heads // kv_heads)
        q = part["self_attn.q_proj.weight"][head * dim : (head + 1) * dim]
        key = part["self_attn.k_proj.weight"][kv * dim : (kv + 1) * dim]
        value = part["self_attn.v_proj.weight"][kv * dim : (kv + 1) * dim]
        keys = norm(source @ key.T, part["self_attn.k_norm.weight"], raw)
        keys = np.stack([rotated(raw, i, row, position) for position, row in enumerate(keys)])
        queries = norm(h @ q.T, part["self_attn.q_norm.weight"], raw)
        for row in range(rows):
            scores = keys @ rotated(raw, i, queries[row], n + row) / np.sqrt(dim)
            for position in range(n + rows):
                in_block = position >= n
                hidden = not in_block and sliding and n + row - position >= raw["sliding_window"]
                if hidden or (in_block and causal and position > n + row):
                    scores[position] = -np.inf
            weights = np.exp(scores - scores.max())
            found[row, head] = weights / weights.sum() @ (source @ value.T)
    return found.reshape(rows, -1) @ part["self_attn.o_proj.weight"].T


def rotated(raw, i, vector, position):
    kind = (raw.get("layer_types") or ["full_attention"] * 99)[i]
    scaling = (raw.get("rope_parameters") or {}).get(kind) or raw.get("rope_scaling") or {}
    half = len(vector) // 2
    theta = scaling.get("rope_theta", raw["rope_theta"])
    angle = position * theta ** (-np.arange(half) / half) / scaling.get("factor", 1)
    neighbours = raw.get("rope_is_neox_style") is False
    one, two = (vector[::2], vector[1::2]) if neighbours else (vector[:half], vector[half:])
    turned = (
        one * np.cos(angle) - two * np.sin(angle),
        one * np.sin(angle) + two * np.cos(angle),
    )
    return np.stack(turned, axis=-1).reshape(-1) if neighbours else np.concatenate(turned)


def convolved(raw, part, name, x, sublayer):
    if f"{name}.base_kernel" not in part:
        return sublayer(x)
    base = part[f"{name}.base_kernel"]
    _, width, hidden = base.shape
    group = raw["dflash_config"]["conv_group_size"]
    dynamic = (x @ part[f"{name}.kernel_projection.weight"].T).reshape(
        len(x), 2, width, hidden // group
    )

    def convolve(h, which):
        out = np.zeros_like(h)
        for t in range(len(h)):
            for back in range(min(width, t + 1)):
                kernel = base[which, back] + np.repeat(dynamic[t, which, back], group)
                out[t] += kernel * h[t - back]
        return out

    return convolve(sublayer(convolve(x, 0)), 1)


def norm(x, weight, raw):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + raw["rms_norm_eps"]) * weight
