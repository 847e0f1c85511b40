"""Drafts of transformers' Gemma 4 assistant, as tests/drafters/assistant/reference.json has them.

    python -m tests.drafters.assistant.test_drafter_reference FOLDER   # writes checkpoints, a text
    python benchmarks/assistant_reference.py FOLDER OUT.json               # where torch is

With torch 2.13.0 and transformers 5.19.0, in float64. The target is transformers', too: before
each token of the text it reads all that is before, and the assistant drafts as its
`SinglePositionMultiTokenCandidateGenerator` does. One thing is set otherwise: an assistant there
sees a row more than its window says, so it is told of a window that is one smaller.
"""

# mypy: ignore-errors

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
)

DEPTH = 3  # draft tokens
UNSAID = {"use_double_wide_mlp": True}  # what mlx-lm takes a config to mean


def loaded(cls, config, folder):
    config._attn_implementation = "eager"
    model = cls(config).double().eval()
    wrong = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert not wrong.unexpected_keys, wrong
    assert all("lm_head" in name or "embed_scale" in name for name in wrong.missing_keys), wrong
    model.tie_weights()
    return model


def drafted(target, assistant, tokens):
    read = target(
        tokens[None, :-1], output_hidden_states=True, return_shared_kv_states=True, use_cache=False
    )
    hidden, token = read.hidden_states[-1][:, -1:], tokens[None, -1:]
    position, found = torch.tensor([[len(tokens) - 1]]), []
    for _ in range(DEPTH):
        embedded = target.get_input_embeddings()(token)
        said = assistant(
            inputs_embeds=torch.cat([embedded, hidden], -1),
            position_ids=position,
            shared_kv_states=read.shared_kv_states,
            use_cache=False,
        )
        found.append(said.logits[0, -1])
        token, hidden = found[-1].argmax()[None, None], said.last_hidden_state
    return torch.stack(found)


def main():
    found = {}
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        said = json.loads((folder / "target" / "config.json").read_text())
        config = Gemma4TextConfig(**{**UNSAID, **said})
        target = loaded(Gemma4ForCausalLM, config, folder / "target")
        said = json.loads((folder / "assistant" / "config.json").read_text())
        config = Gemma4AssistantConfig(**said)
        config.text_config.sliding_window -= 1
        config.text_config._attn_implementation = "eager"
        assistant = loaded(Gemma4AssistantForCausalLM, config, folder / "assistant")
        text = torch.tensor(json.loads((folder / "text.json").read_text()))
        with torch.no_grad():
            rows = [drafted(target, assistant, text[:n]) for n in range(2, len(text) + 1)]
        found[folder.name] = {
            "drafts": [row.argmax(-1).tolist() for row in rows],
            "logits": [[[round(x, 5) for x in one] for one in row.tolist()] for row in rows[-2:]],
        }
        print(folder.name, len(rows), "positions")
    Path(sys.argv[2]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
