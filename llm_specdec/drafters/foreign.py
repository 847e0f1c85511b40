"""Drafters in layouts that nothing here can run: recognised, so that none answers as a model."""

from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import Kind

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles


class Foreign(Kind):
    name = files = "foreign-drafter"
    files_words = "a drafter in a layout that nothing here can run"
    sources = ()

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        config = contents.config
        found = "d2t" in contents.tensors or "speculators_model_type" in config
        return frozenset(contents.tensors if found or _is_drafters(config) else ())

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        return [f"{drafter.folder.name} is {self.files_words}"]


def _is_drafters(config: dict[str, Any]) -> bool:
    architecture = " ".join(map(str, config.get("architectures") or []))
    return str(config.get("model_type")).endswith("_assistant") or "eagle" in architecture.lower()


KIND = Foreign()
