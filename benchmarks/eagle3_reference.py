"""Draft logits of vLLM's `speculators`, as tests/drafters/eagle3/reference.json holds them.

    python -m tests.drafters.eagle3.test_model FOLDER       # writes checkpoints and inputs
    python benchmarks/eagle3_reference.py FOLDER OUT.json       # where torch is

With torch 2.13.0, transformers 5.19.0 and speculators 0.9.0 (which wants openai, datasets,
loguru, hs-connectors).
"""

# mypy: ignore-errors

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from transformers import AutoConfig, DynamicCache


def model(folder):
    raw = json.loads((folder / "config.json").read_text())
    layer = AutoConfig.for_model(**raw.pop("transformer_layer_config"))
    layer._attn_implementation = "eager"
    raw = {k: v for k, v in raw.items() if k not in ("architectures", "target_hidden_size")}
    config = Eagle3SpeculatorConfig(transformer_layer_config=layer, **raw)
    found = Eagle3DraftModel(config).float().eval()
    assert not found.load_state_dict(load_file(folder / "model.safetensors"), False).unexpected_keys
    return found


def drafted(m, states, tokens, steps):
    """Logits of all true rows, then of greedy drafts, each fed its own states."""
    if m.input_norm is not None:
        states = m.input_norm(states)
    if m.fc_norm is not None:
        parts = zip(m.fc_norm, states.chunk(len(m.fc_norm), -1), strict=True)
        states = torch.cat([norm(part) for norm, part in parts], -1)
    states, past, at, found = m.fc(states), DynamicCache(), 0, []
    for _ in range(steps):
        n = tokens.shape[1]
        h = torch.cat([m.embed_tokens(tokens), states], -1)
        rows, columns = torch.arange(at, at + n), torch.arange(at + n)
        places = 1 + rows[None]
        embeddings = m.rotary_emb(h, places)
        back = rows[:, None] - columns[None]
        for i, layer in enumerate(m.layers):
            seen = back >= 0
            if i in m.sliding_window_indices:
                seen &= back < m.sliding_window
            h = layer(
                h,
                attention_mask=torch.where(seen, 0.0, float("-inf"))[None, None],
                position_ids=places,
                past_key_values=past,
                use_cache=True,
                cache_position=rows,
                position_embeddings=embeddings,
            )
        normed = m.norm(h)
        found.append(m.lm_head(normed)[0])
        best = found[-1][-1].argmax()
        tokens, at = (best + m.d2t[best])[None, None], at + n
        states = (normed if m.config.norm_output else h)[:, -1:]
    return torch.cat(found)


def main():
    found = {}
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        given = load_file(folder / "in" / "inputs.safetensors")
        with torch.no_grad():
            rows = drafted(model(folder), given["states"][None], given["tokens"].long()[None], 5)
        found[folder.name] = [[round(x, 5) for x in row] for row in rows[-5:].tolist()]
    Path(sys.argv[2]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
