"""Tiny random models of every family, from mlx-lm's own classes, and drafters to try them with.

`build("gemma3")` gives a model in float32 and its config in a fraction of a second. Weights are
random but scaled so that greedy text varies and the best two logits lie well apart. Windows are
WINDOW tokens wide. `write` makes a publisher's folder of it.
"""

import importlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_map_with_path

from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap

VOCAB = 96
WINDOW = 16

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
_DELTA: dict[str, Any] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "partial_rotary_factor": 0.5,
    "full_attention_interval": 2,
    "num_hidden_layers": 4,
}
_MOE: dict[str, Any] = {
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "first_k_dense_replace": 1,
    "rope_scaling": None,
}
_SLIDING_FULL = ["sliding_attention", "full_attention"]

# family → what its config says beyond _SHAPE; the module of mlx-lm is the model_type.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "gemma3": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 4,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 32,
    },
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_FULL,
    },
    "gemma3n": {
        "text_config": {
            **_SHAPE,
            "model_type": "gemma3n_text",
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "vocab_size_per_layer_input": VOCAB,
            "sliding_window": WINDOW,
            "rope_local_base_freq": 10000.0,
            "final_logit_softcapping": 30.0,
            "layer_types": _SLIDING_FULL * 2,
            "activation_sparsity_pattern": [0.0] * 4,
            "hidden_size_per_layer_input": 16,
            "intermediate_size": [96] * 4,
            "altup_num_inputs": 2,
            "altup_coef_clip": 120.0,
            "altup_correct_scale": True,
            "altup_active_idx": 0,
            "laurel_rank": 8,
        }
    },
    "gemma4": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": VOCAB,
        "hidden_size_per_layer_input": 16,
        "global_head_dim": 32,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_FULL * 2,
        "tie_word_embeddings": True,
    },
    "qwen3_5": {**_DELTA},
    "qwen3_next": {
        **_DELTA,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 32,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
    },
    "mamba2": {
        "num_heads": 4,
        "head_dim": 16,
        "state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "intermediate_size": 64,
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "time_step_limit": [0.0, 1e30],
        "time_step_rank": "auto",
    },
    "nemotron_h": {
        "hybrid_override_pattern": ["M", "*", "-", "M"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "mamba_proj_bias": False,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
        "num_hidden_layers": 4,
    },
    "falcon_h1": {
        "mamba_d_ssm": 64,
        "mamba_d_head": 16,
        "mamba_n_heads": 4,
        "mamba_d_state": 16,
        "lm_head_multiplier": 1.0,
        "rope_theta": 10000.0,
    },
    "lfm2": {
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv"],
        "num_hidden_layers": 3,
    },
    "rwkv7": {
        "norm_eps": 1e-5,
        "head_dim": 16,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "deepseek_v3": {
        **_MOE,
        "kv_lora_rank": 32,
        "q_lora_rank": 32,
        "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "num_key_value_heads": 2,
    },
    "glm4_moe": {**_MOE, "use_qk_norm": True, "partial_rotary_factor": 0.5},
    "mimo": {"num_nextn_predict_layers": 1},
    "llama4": {
        "text_config": {
            **_SHAPE,
            "num_hidden_layers": 4,
            "attention_chunk_size": WINDOW,
            "interleave_moe_layer_step": 2,
            "intermediate_size_mlp": 96,
            "num_experts_per_tok": 1,
            "num_local_experts": 2,
            "rope_scaling": None,
            "use_qk_norm": True,
            "model_type": "llama4_text",
        }
    },
}


def build(family: str, seed: int = 1, **changes: Any) -> tuple[Module, dict[str, Any]]:
    """A random model of this family and its config; `changes` go into the config."""
    config = {**_SHAPE, "model_type": family, **FAMILIES[family], **changes}
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(seed)
    model: Module = module.Model(module.ModelArgs.from_dict(config))
    model.update(tree_map_with_path(lambda path, w: _scaled(family, path, w), model.parameters()))
    mx.eval(model.parameters())
    model.eval()
    return model, config


def _scaled(family: str, path: str, weight: mx.array) -> mx.array:
    """Matrices so wide that what came before moves the state far; vectors as they were made.

    With a tied embedding a token would ask for itself again and again: there it is small.
    """
    if not mx.issubdtype(weight.dtype, mx.floating):
        return weight
    if weight.ndim < 2:
        louder = family == "gemma3n" and ("post" in path or "q_norm" in path)
        return weight * 3 if louder else weight
    if "embed" in path:
        return mx.random.normal(weight.shape) * (0.05 if family in ("gemma3n", "gemma4") else 1)
    fan_in = weight.shape[-1] if weight.ndim == 3 else weight.size // weight.shape[0]
    wide: mx.array = mx.random.normal(weight.shape) * (2.5 / fan_in**0.5)
    return wide


def noisy(model: Module, amount: float) -> Any:
    """The model's parameters with noise on every matrix, relative to its spread."""

    def blurred(path: str, weight: mx.array) -> mx.array:
        if weight.ndim < 2 or not mx.issubdtype(weight.dtype, mx.floating):
            return weight
        return weight + mx.random.normal(weight.shape) * (amount * weight.std())

    return tree_map_with_path(blurred, model.parameters())


def write(family: str, folder: Path, **changes: Any) -> Path:
    """Write `build(family)` as a publisher would: config, safetensors and a small tokenizer."""
    model, config = build(family, **changes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    mx.save_safetensors(
        str(folder / "model.safetensors"),
        dict(tree_flatten(model.parameters())),
        metadata={"format": "mlx"},
    )
    write_tokenizer(folder, config.get("vocab_size", VOCAB))
    return folder


def write_tokenizer(folder: Path, vocab_size: int = VOCAB) -> None:
    """A tokenizer of letters, signs and made-up words: every id below `vocab_size` is text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    special = ["<unk>", "<s>", "</s>"]
    signs = [chr(c) for c in range(ord("!"), ord("~") + 1)][: vocab_size - len(special) - 1]
    words = [*special, "Ġ", *signs]
    words += [f"Ġw{i}" for i in range(vocab_size - len(words))]
    vocab = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}"
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<s>",
                "eos_token": "</s>",
                "unk_token": "<unk>",
                "chat_template": template,
            },
            indent=2,
        )
    )


class Scripted:
    """A drafter that knows the text to come and gets each token right with chance `rate`.

    Beyond the end of `text` it has nothing to propose.
    """

    kind = source = "scripted"
    taps: tuple[Tap, ...] = ()
    max_draft: int | None = None

    def __init__(self, text: Sequence[int], rate: float, seed: int = 0, vocab: int = VOCAB) -> None:
        self.text, self.rate, self.vocab = list(text), rate, vocab
        self.known = 0
        self._random = random.Random(seed)

    def start(self, token: int) -> None:
        self.known = 1

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self.known += len(next_tokens)

    def ready(self) -> bool:
        return self.known < len(self.text)

    def propose(self, k: int, draw: Draw) -> Proposal:
        coming = self.text[self.known : self.known + k]
        drafted = [t if self._random.random() < self.rate else self._other(t) for t in coming]
        return Proposal(mx.array(drafted, mx.int32))

    def _other(self, token: int) -> int:
        return (token + self._random.randrange(1, self.vocab)) % self.vocab

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self.known = len(tokens)


def oracle(text: Sequence[int]) -> Scripted:
    """Always right."""
    return Scripted(text, rate=1.0)


def adversary(text: Sequence[int]) -> Scripted:
    """Always wrong."""
    return Scripted(text, rate=0.0)
