"""DSpark as its layout describes it, in float64, slot by slot."""

from typing import Any

import numpy as np

from tests.support import dflash_naive


def propose(
    raw: dict[str, Any], tensors: dict[str, Any], lender, taps: np.ndarray, pending: int, k: int
):
    """Logits by slot over the whole vocabulary (-inf where the drafter knows no such token),
    the greedy tokens, and the confidence of each. The block is always run whole."""
    w = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
    inner = {key: raw[key] for key in ("target_layer_ids", "mask_token_id")}
    anchored = raw.get("sample_from_anchor", True)
    block = {**raw, "dflash_config": inner, "sample_from_anchor": anchored}
    longest = raw["block_size"] if anchored else raw["block_size"] - 1
    hidden, logits = dflash_naive.propose(block, tensors, lender, taps, pending, longest)
    ids = np.arange(raw["vocab_size"])
    if "d2t" in w:
        logits = hidden @ w["lm_head.weight"].T
        ids = np.arange(len(w["d2t"])) + w["d2t"].astype(int)
    state, before = np.zeros(raw["markov_rank"]), pending
    found, tokens, chances = [], [], []
    for h, row in zip(hidden[:k], logits, strict=False):
        v = w["markov_head.markov_w1.weight"][before]
        if "confidence_head.proj.weight" in w:
            features = np.concatenate([h, v]) if raw["confidence_head_with_markov"] else h
            proj = w["confidence_head.proj.weight"][0] @ features + w["confidence_head.proj.bias"]
            chances.append(float(sigmoid(proj[0])))
        if raw["markov_head_type"] == "gated":
            v = v * sigmoid(linear(w, "markov_head.gate_proj", np.concatenate([h, v])))
        if raw["markov_head_type"] == "rnn":
            joint = linear(w, "markov_head.joint_proj", np.concatenate([state, v, h]))
            gate, candidate, out = np.split(joint, 3)
            state = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(candidate)
            v = np.tanh(out)
        whole = np.full(raw["vocab_size"], -np.inf)
        whole[ids] = row + w["markov_head.markov_w2.weight"] @ v
        before = int(whole.argmax())
        found.append(whole)
        tokens.append(before)
    return found, tokens, chances


def linear(w, name, x):
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
