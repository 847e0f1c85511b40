"""Drafters in layouts that nothing here can run: recognised, so that none answers as a model."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import Kind

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles


class Foreign(Kind):
    """name: as `Anatomy.kind` has it. words: what it is. holds: whether a folder holds one.
    instead: what to do about it."""

    sources = ()

    def __init__(
        self,
        name: str,
        words: str,
        holds: Callable[["CheckpointFiles"], bool],
        instead: str = "take a drafter of another kind for this target",
    ) -> None:
        self.name = self.files = name
        self.files_words, self._holds, self._instead = words, holds, instead

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        return frozenset(contents.tensors if self._holds(contents) else ())

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        model = self.made_for(drafter)
        made_for = f" made for {model}" if model else ""
        return [
            f"{drafter.folder.name} is {self.files_words}{made_for}, which nothing here can run: "
            f"{self._instead}, or --drafter lookup"
        ]

    @property
    def usage(self) -> str:
        return f"none, nothing here can run it: {self._instead}"


def _peagle(contents: "CheckpointFiles") -> bool:
    return "mask_hidden" in contents.tensors or _method(contents) == "peagle"


_FIRST_LAYER = re.compile(r"(model\.)?layers\.0\.self_attn\.q_proj\.weight")


def _eagle(contents: "CheckpointFiles") -> bool:
    """A projection of [embedding; state], and a layer without a second norm for the state."""
    tensors = contents.tensors
    fc = next((tensors[name] for name in ("fc.weight", "model.fc.weight") if name in tensors), None)
    pairs = fc is not None and len(fc.shape) == 2 and fc.shape[1] == 2 * fc.shape[0]
    layer = any(map(_FIRST_LAYER.fullmatch, tensors))
    return pairs and layer and not any(name.endswith("hidden_norm.weight") for name in tensors)


def _other(contents: "CheckpointFiles") -> bool:
    return bool(_method(contents)) or "d2t" in contents.tensors or _is_drafters(contents.config)


def _method(contents: "CheckpointFiles") -> str:
    return str(contents.config.get("speculators_model_type") or "")


def _is_drafters(config: dict[str, Any]) -> bool:
    architecture = " ".join(map(str, config.get("architectures") or []))
    return str(config.get("model_type")).endswith("_assistant") or "eagle" in architecture.lower()


def _medusa(contents: "CheckpointFiles") -> bool:
    """Residual blocks and an output matrix for each token ahead, numbered."""
    return any(map(_MEDUSA.match, contents.tensors)) or "medusa_num_heads" in contents.config


_MEDUSA = re.compile(r"(medusa_heads?\.)?\d+\.0\.linear\.weight")


def _noisy(contents: "CheckpointFiles") -> bool:
    return any(name.startswith("log_snr_embed.") for name in contents.tensors)


def _doubled(contents: "CheckpointFiles") -> bool:
    """Keys and values of the target's states have matrices of their own."""
    return any("k_proj_target" in name for name in contents.tensors)


def _sinks(contents: "CheckpointFiles") -> bool:
    block = "hidden_norm.weight" in contents.tensors
    return block and any("attention_sink" in name for name in contents.tensors)


def _fp4(contents: "CheckpointFiles") -> bool:
    """NVIDIA's packing: two 4-bit floats a byte, and two scales."""
    drafter = {"hidden_norm.weight", "midlayer.hidden_norm.weight"} & contents.tensors.keys()
    return bool(drafter) and any(name.endswith(".weight_scale_2") for name in contents.tensors)


_PLAIN = "take its 16-bit build"
_BLOCK = "take a DFlash or plain DSpark drafter of this target"
_LATER = "take an EAGLE-3 drafter of this target"

# The first that fits names a folder: what is told by less stands below.
NAMED = (
    Foreign("nvfp4", "a drafter in NVIDIA's 4-bit floats", _fp4, _PLAIN),
    Foreign("bonsai", "a DSpark drafter with noise levels (Bonsai)", _noisy, _BLOCK),
    Foreign("sinks", "a block drafter with attention sinks (Nemotron, Muse)", _sinks, _BLOCK),
    Foreign("dflare", "a DFlare drafter", _doubled, _BLOCK),
    Foreign("xpress", "an xPress drafter", lambda found: _method(found) == "xpress", _BLOCK),
    Foreign("p-eagle", "a P-EAGLE drafter", _peagle, _LATER),
    Foreign("eagle", "an EAGLE-1 or EAGLE-2 drafter", _eagle, _LATER),
    Foreign("medusa", "a set of Medusa heads", _medusa),
)
UNKNOWN = Foreign("foreign-drafter", "a drafter in an unknown layout", _other)
