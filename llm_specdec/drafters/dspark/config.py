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
from llm_specdec.errors import CheckpointError

_TYPES = ("vanilla", "gated", "rnn")

# Copied from the target's config, and about the target alone.
_COPIED = r"linear_.*|attn_output_gate|full_attention_interval|mtp_.*|mrope_.*"


@dataclass(frozen=True)
class DSparkConfig:
    """markov_type: how the bias of a slot is made of the token before. confidence_sees_token:
    whether the confidence head reads that token beside the slot's hidden state."""

    block: DFlashConfig
    markov_rank: int
    markov_type: str
    confidence_sees_token: bool


def needs(contents: CheckpointFiles) -> TargetNeeds:
    """As of a DFlash drafter. Raises CheckpointError."""
    found = dflash.needs(contents)
    anchored = _from_anchor(contents.config, found.block_size)
    return replace(found, longest=found.block_size - (not anchored))


def read(folder: Path) -> DSparkConfig:
    """Raises: CheckpointError."""
    return dflash.reading(folder, lambda where, raw: _Reader(where, _own(where, raw)).dspark())


def _own(where: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Without what was copied from the target's config: stock heads turn whole vectors, whatever
    the target does. Heads of the target's own make are other ones."""
    named = " ".join(map(str, raw.get("architectures") or []))
    if raw.get("model_type") == "qwen3_5" or "Qwen35" in named:
        raise CheckpointError(
            f"{where}: a DSpark drafter with Qwen3.5's own layers, which nothing here can run"
        )
    if "gemma4" in f"{named} {raw.get('model_type')}".lower():
        raise CheckpointError(
            f"{where}: a DSpark drafter with Gemma 4's own layers, which nothing here can run"
        )
    found = {key: value for key, value in raw.items() if key != "partial_rotary_factor"}
    if isinstance(ropes := found.get("rope_parameters"), dict):
        found["rope_parameters"] = _whole(ropes)
    inner = {**(found.get("dflash_config") or {})}
    found["sample_from_anchor"] = _from_anchor({**found, **inner}, _block_size(found, inner))
    inner.pop("sample_from_anchor", None)
    return {**found, "dflash_config": inner}


def _whole(rope: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _whole(value) if isinstance(value, dict) else value
        for key, value in rope.items()
        if key != "partial_rotary_factor"
    }


def _block_size(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> Any:
    return inner.get("block_size") or raw.get("block_size")


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
            block=self.config(),
        )
