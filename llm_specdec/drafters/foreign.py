"""Drafters in layouts that nothing here can run: recognised, so that none answers as a model."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import Kind

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles


class Foreign(Kind):
    """name: as `Anatomy.kind` has it. words: what it is. holds: whether a folder holds one."""

    sources = ()

    def __init__(self, name: str, words: str, holds: Callable[["CheckpointFiles"], bool]) -> None:
        self.name = self.files = name
        self.files_words, self._holds = words, holds

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        return frozenset(contents.tensors if self._holds(contents) else ())

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        return [f"{drafter.folder.name} is {self.files_words}, which nothing here can run"]


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


# The first that fits names a folder: what is told by less stands below.
KINDS = (
    Foreign("p-eagle", "a P-EAGLE drafter", _peagle),
    Foreign("eagle", "an EAGLE-1 or EAGLE-2 drafter", _eagle),
    Foreign("foreign-drafter", "a drafter in an unknown layout", _other),
)
