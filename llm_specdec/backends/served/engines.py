"""What each engine knows. Nothing else names one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

COMMON = {name: name for name in ("temperature", "top_p", "max_tokens", "seed", "logit_bias")}
OPENAI = {**COMMON, "stop": "stop"}
SAMPLERS = {"top_k": "top_k", "min_p": "min_p"}
PENALTIES = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
NOTHING: Mapping[str, Any] = MappingProxyType({})

# Penalty → scope → what must be sent beside it for the engine to count so. A scope that is not
# there is one that the engine does not have.
Counting = Mapping[str, Mapping[str, Mapping[str, Any]]]
ANSWER = "answer"  # no scope of ours: over the answer alone
_AS_CARDS: Counting = {name: {"card": NOTHING} for name in PENALTIES}
_OPENAI_PENALTIES: Counting = {
    name: {"card": NOTHING} for name in ("presence_penalty", "frequency_penalty")
}
_SGLANG_PENALTIES: Counting = {**_AS_CARDS, "repetition_penalty": {ANSWER: NOTHING}}
# llama.cpp makes room for as many tokens as are named (2^31 would be gigabytes), and refuses -1.
# Presence and frequency over prompt and answer are not what a card means.
_LLAMA_PENALTIES: Counting = {
    "repetition_penalty": {"card": {"repeat_last_n": 1 << 20}, "mlx": {"repeat_last_n": 20}},
    "presence_penalty": {"mlx": {"repeat_last_n": 20}},
    "frequency_penalty": {"mlx": {"repeat_last_n": 20}},
}
_MLX_PENALTIES: Counting = {
    "repetition_penalty": {"card": {"repetition_context_size": 1 << 30}, "mlx": NOTHING},
    "presence_penalty": {"mlx": NOTHING},
    "frequency_penalty": {"mlx": NOTHING},
}


@dataclass(frozen=True)
class Engine:
    """words: setting → field of the body. penalties: see Counting. extra: sent every time.

    explicit: all words are sent, as the server's own defaults may be others; else only what
    differs from the built-in default. sends_neutral: penalties too, where they are off.
    own_target: the name of the model that the server was started with, where it loads any other.
    template: whether `chat_template_kwargs` are taken. images: whether pictures are, where the
    model sees. draft_length: the field that sets it.
    cache_off: what makes it read the whole prompt again. tells: which figures its answers hold.
    warning: what it does wrong. cure: what its owner can do about that.
    """

    name: str
    tells: str
    words: Mapping[str, str]
    penalties: Counting
    extra: Mapping[str, Any] = field(default_factory=dict)
    explicit: bool = True
    sends_neutral: bool = False
    own_target: str | None = None
    top_k_off: int = 0
    template: bool = True
    schema: bool = True
    images: bool = True
    draft_length: str | None = None
    cache_off: Mapping[str, Any] | None = None
    largest_seed: int = 2**63 - 1
    warning: str = ""
    cure: str = ""


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "vllm",
            "rounds, drafted, accepted and its own times, where it was started with "
            "--per-request-spec-decode-metrics and --enable-per-request-metrics",
            {**OPENAI, **SAMPLERS},
            _AS_CARDS,
            sends_neutral=True,
            top_k_off=-1,
        ),
        Engine(
            "sglang",
            "rounds, drafted and accepted",
            {**OPENAI, **SAMPLERS},
            _SGLANG_PENALTIES,
            extra={"return_spec_tokens_details": True},
            sends_neutral=True,
            top_k_off=-1,
        ),
        Engine(
            "llama-server",
            "drafted, accepted, prefill and decode times; no rounds",
            {**OPENAI, **SAMPLERS, "repetition_penalty": "repeat_penalty"},
            _LLAMA_PENALTIES,
            sends_neutral=True,
            cache_off={"cache_prompt": False},
            largest_seed=2**32 - 2,
        ),
        Engine(
            "mlx-lm",
            "tokens only; nothing of drafting",
            {**COMMON, **SAMPLERS},
            _MLX_PENALTIES,
            own_target="default_model",
            schema=False,
            images=False,
            draft_length="num_draft_tokens",
            warning="mlx_lm.server with a draft model gives wrong text where it reuses its prompt "
            "cache",
            cure="if it has one, start it with --prompt-cache-size 0",
        ),
        Engine(
            "mlx-vlm",
            "method, rounds, drafted, accepted, prefill and decode times",
            {**COMMON, **SAMPLERS},
            {"repetition_penalty": {"mlx": NOTHING}},
            schema=False,
            template=False,
        ),
        Engine(
            "lmstudio",
            "drafted and accepted, where its version tells them",
            {**OPENAI, "top_k": "top_k", "repetition_penalty": "repeat_penalty"},
            _AS_CARDS,
            explicit=False,
            template=False,
        ),
        Engine(
            "openai",
            "tokens only; nothing of drafting",
            OPENAI,
            _OPENAI_PENALTIES,
            explicit=False,
            template=False,
        ),
    )
}
