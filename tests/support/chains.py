"""A tiny model whose answers are written in advance, as a checkpoint that any process can load.

Its next token depends on the last one alone: hidden states are one-hot, attention and MLP add
nothing, and the output matrix is the table of successors. A chat template chooses what to
answer by the token that it ends with.
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import llama

SPECIAL = ("<unk>", "<|im_start|>", "<|im_end|>")
END = "<|im_end|>"

# ChatML, thinking kept in the last turn alone, tools listed and answered. Written for tests.
CHATML = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}
{{- m.content }}
{%- for call in m.tool_calls or [] %}{% set tool_call = call.function %}<tool_call>
{"name": "{{ tool_call.name }}", "arguments": {{ tool_call.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{{ start(messages[-1]) }}{% endif %}"""


def template(starts: dict[str, str], otherwise: str) -> str:
    """CHATML whose generation prompt is the value of the first key that the last message
    contains (as its role, or in its text)."""
    cases = "".join(
        f"{{% elif {json.dumps(key)} in m.content or m.role == {json.dumps(key)} %}}{start}"
        for key, start in starts.items()
    )
    macro = f"{{% macro start(m) -%}}{{% if false %}}{cases}{{% else %}}{otherwise}{{% endif %}}"
    return macro + "{%- endmacro %}" + CHATML


def write(folder: Path, chains: Sequence[Sequence[str]], chat_template: str) -> Path:
    """A checkpoint that continues each chain's first token with the others, then ends.

    A token is a text; "<0xF0>" stands for that byte. A token has one successor at most,
    whatever the chain it is in.
    """
    words = dict.fromkeys(word for chain in chains for word in chain if _byte(word) is None)
    ids = write_tokenizer(folder, list(words), chat_template)

    def number(word: str) -> int:
        byte = _byte(word)
        return ids[word] if byte is None else ids[_sign(byte)]

    after: dict[int, int] = {}
    for chain in chains:
        for one, two in itertools.pairwise(chain):
            assert after.setdefault(number(one), number(two)) == number(two), f"{one!r} twice"

    _write_weights(folder, len(ids), ids[END], after)
    return folder


def write_tokenizer(folder: Path, words: Sequence[str], chat_template: str) -> dict[str, int]:
    """A tokenizer of all bytes and these words; token → id."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {sign: at for at, sign in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "unk_token": "<unk>",
        "chat_template": chat_template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer.get_vocab()


def _write_weights(folder: Path, size: int, end: int, after: dict[int, int]) -> None:
    width = -(-size // 8) * 8
    config = {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": 1,
        "intermediate_size": 8,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "vocab_size": size,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 1 << 20,
        "tie_word_embeddings": False,
        "rope_theta": 10000.0,
        "eos_token_id": end,
    }
    model = llama.Model(llama.ModelArgs.from_dict(config))
    table = [[0.0] * width for _ in range(size)]
    for one in range(size):
        table[after.get(one, end)][one] = 1.0
    weights = {
        name: mx.ones(w.shape) if w.ndim == 1 else mx.zeros(w.shape)
        for name, w in cast(list[tuple[str, mx.array]], tree_flatten(model.parameters()))
    }
    weights["model.embed_tokens.weight"] = mx.eye(size, width)
    weights["lm_head.weight"] = mx.array(table)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))


def _byte(word: str) -> int | None:
    """The byte that "<0xF0>", or a single sign, stands for."""
    if word.startswith("<0x") and len(word) == 6:
        return int(word[3:5], 16)
    return ord(word) if len(word) == 1 else None


def _sign(byte: int) -> str:
    """How byte-level BPE spells a byte."""
    from mlx_lm.tokenizer_utils import _byte_decoder

    return next(str(sign) for sign, value in _byte_decoder().items() if value == byte)
