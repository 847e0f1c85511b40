"""config.json of a DSpark checkpoint: that of a DFlash block, and of the two heads behind it.

Plain Python: no tensor library is imported here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_specdec.checkpoint import CheckpointFiles
from llm_specdec.drafters.dflash import config as dflash
from llm_specdec.drafters.dflash.config import ConfigReader, DFlashConfig, TargetNeeds

_TYPES = ("vanilla", "gated", "rnn")

# Copied from the target's config, and about the target alone: a body of other layers has other
# tensors, which do not load.
_COPIED = (
    r"linear_.*|attn_output_gate|full_attention_interval|mtp_.*|mrope_.*|num_experts(_per_tok)?"
    r"|moe_.*|shared_expert_.*|norm_topk_prob|decoder_sparse_step|mlp_only_layers|.*router_.*"
)
_COPIED_OF_GEMMA = (
    "layer_types", "sliding_window", "num_kv_shared_layers", "hidden_size_per_layer_input",
    "vocab_size_per_layer_input", "use_double_wide_mlp", "use_bidirectional_attention",
    "enable_moe_block", "num_experts", "top_k_experts", "moe_intermediate_size",
)  # fmt: skip


@dataclass(frozen=True)
class DSparkConfig:
    """markov_type: how the bias of a slot is made of the token before. confidence_sees_token:
    whether the confidence head reads that token beside the slot's hidden state.

    Of a body in its target's own style: gemma, and whether its values are its keys; gated
    (Qwen3.5), and whether the gains of norms are stored less one.
    """

    block: DFlashConfig
    markov_rank: int
    markov_type: str
    confidence_sees_token: bool
    gemma: bool = False
    values_are_keys: bool = False
    gated: bool = False
    gains_less_one: bool = False


def needs(contents: CheckpointFiles) -> TargetNeeds:
    """As of a DFlash drafter. Raises CheckpointError."""
    found = dflash.needs(contents)
    anchored = _from_anchor(contents.config, found.block_size)
    return replace(found, longest=found.block_size - (not anchored))


def read(folder: Path) -> DSparkConfig:
    """Raises: CheckpointError."""
    return dflash.reading(folder, _read)


def _read(where: str, raw: dict[str, Any]) -> DSparkConfig:
    named = " ".join(map(str, raw.get("architectures") or []))
    kind = str(raw.get("model_type") or "")
    if "Gemma4" in named or kind.startswith("gemma4"):
        return _GemmaReader(where, _anchored(_of_gemma(raw))).dspark()
    if kind == "qwen3_5" or "Qwen35" in named or raw.get("enable_qwen35_gated_q_proj"):
        turned = (raw.get("rope_parameters") or {}).get("partial_rotary_factor")
        return _GatedReader(where, _anchored(_unturned(raw)), turned or 1.0).dspark()
    return _Reader(where, _anchored(_unturned(raw))).dspark()


def _unturned(raw: dict[str, Any]) -> dict[str, Any]:
    """Without the target's partial rotation and its recurrent layers: stock bodies turn whole
    heads and attend in every layer, whatever it does."""
    found = {key: value for key, value in raw.items() if key != "partial_rotary_factor"}
    if "linear_attention" in (found.get("layer_types") or []):
        del found["layer_types"]
    if isinstance(ropes := found.get("rope_parameters"), dict):
        found["rope_parameters"] = _whole(ropes)
    return found


def _of_gemma(raw: dict[str, Any]) -> dict[str, Any]:
    """Every layer is as the target's layers of full attention are."""
    found = {key: value for key, value in raw.items() if key not in _COPIED_OF_GEMMA}
    found["head_dim"] = found.pop("global_head_dim", None) or 512
    shared = found.pop("num_global_key_value_heads", None)
    if raw.get("attention_k_eq_v", True):
        found["num_key_value_heads"] = shared or 1
    ropes = found.get("rope_parameters") or {}
    found["rope_parameters"] = ropes.get("full_attention") or {
        "rope_type": "proportional", "rope_theta": 1_000_000.0, "partial_rotary_factor": 0.25
    }  # fmt: skip
    found["final_logit_softcapping"] = raw.get("final_logit_softcapping", 30.0)
    found["input_embedding_scale"] = raw["hidden_size"] ** 0.5
    return found


def _anchored(raw: dict[str, Any]) -> dict[str, Any]:
    inner = {**(raw.get("dflash_config") or {})}
    anchored = _from_anchor({**raw, **inner}, inner.get("block_size") or raw.get("block_size"))
    inner.pop("sample_from_anchor", None)
    return {**raw, "sample_from_anchor": anchored, "dflash_config": inner}


def _whole(rope: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _whole(value) if isinstance(value, dict) else value
        for key, value in rope.items()
        if key != "partial_rotary_factor"
    }


def _from_anchor(raw: Mapping[str, Any], block_size: Any) -> bool:
    """Whether the pending token's own row gives a draft token. Older files of `speculators` do
    not say it, but how many tokens a block gives."""
    said = raw.get("sample_from_anchor")
    if said is not None:
        return bool(said)
    methods = (raw.get("speculators_config") or {}).get("proposal_methods") or [{}]
    given = methods[0].get("speculative_tokens")
    return given is None or given == block_size


class _Reader(ConfigReader):
    harmless = re.compile(f"{ConfigReader.harmless.pattern}|{_COPIED}|enable_confidence_head")
    neutral: Mapping[str, tuple[Any, ...]] = {
        **ConfigReader.neutral,
        "projector_type": ("dspark",),
    }

    def dspark(self) -> DSparkConfig:
        kind = self.get("markov_head_type") or "vanilla"
        if kind not in _TYPES:
            self.fail(f"markov_head_type is {kind!r}, known are {', '.join(_TYPES)}")
        sees_token = self.get("confidence_head_with_markov")
        return DSparkConfig(
            markov_rank=self.whole("markov_rank", 256),
            markov_type=kind,
            confidence_sees_token=sees_token is None or bool(sees_token),
            **self.body(),
            block=self.config(),
        )

    def body(self) -> dict[str, bool]:
        return {}


class _GemmaReader(_Reader):
    neutral: Mapping[str, tuple[Any, ...]] = {
        **_Reader.neutral,
        "hidden_activation": ("gelu_pytorch_tanh",),
        "hidden_act": ("gelu_pytorch_tanh",),
    }

    def body(self) -> dict[str, bool]:
        shared = self.get("attention_k_eq_v")
        return {"gemma": True, "values_are_keys": shared is None or bool(shared)}


class _GatedReader(_Reader):
    """turned: the share of each head that is."""

    def __init__(self, where: str, raw: dict[str, Any], turned: float) -> None:
        super().__init__(where, raw)
        self._turned = turned

    def config(self) -> DFlashConfig:
        found = super().config()
        dims = int(found.head_dim * self._turned)
        return replace(found, ropes=tuple(replace(rope, dims=dims) for rope in found.ropes))

    def body(self) -> dict[str, bool]:
        gated = bool(self.get("enable_qwen35_gated_q_proj"))
        return {"gated": gated, "gains_less_one": self.get("model_type") == "qwen3_5"}
