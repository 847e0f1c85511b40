"""Gemma 4 assistants: a few layers without keys and values, which attend to the target's.

config        what the files say; no tensors
fit           which target it suits, by shapes
model         files → the mathematics
drafter       the drafter the loop drives
calibration   from which position it looks back
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import DRAFTER_GROUP_SIZE, DraftPass, DraftSource
from llm_specdec.drafters.trained import Trained

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.drafters.assistant.config import AssistantConfig
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Session, Weights
    from llm_specdec.engine.target import Target


class Assistant(Trained["AssistantConfig"]):
    name = files = "assistant"
    files_words = "a Gemma 4 assistant"
    sources = (DraftSource("assistant", 5),)
    readings = MappingProxyType(
        {"last": "as seen from the last token", "before": "as seen from the token before it"}
    )

    # Recognising its files

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        from llm_specdec.drafters.assistant.config import is_assistant

        return frozenset(contents.tensors if is_assistant(contents) else ())

    def read(self, contents: "CheckpointFiles") -> "AssistantConfig":
        from llm_specdec.drafters.assistant import config

        return config.read(contents)

    def build(self, folder: Path, config: "AssistantConfig") -> None:
        from llm_specdec.drafters.assistant import model

        model.load(folder, config)

    def differences(self, target: "Anatomy", config: "AssistantConfig") -> list[str]:
        from llm_specdec.drafters.assistant import fit

        return fit.mismatches(target, config)

    # What it costs

    def draft_pass(self, target: "Anatomy", drafter: "Anatomy | None") -> DraftPass | None:
        """Of its output matrix no more than the rows it chooses from."""
        config = self.stored(drafter).config if drafter else None
        if drafter is None or config is None:
            return None
        left_out = 1 - config.drafted_from / config.vocab_size
        return DraftPass(drafter.pass_bytes - round(left_out * drafter.output_bytes), 1)

    def cache_bytes(self, target: "Anatomy", drafter: "Anatomy | None", tokens: int) -> int:
        return 0

    # Words

    def described(self, config: "AssistantConfig") -> dict[str, Any]:
        return {
            "target_hidden_size": config.target_width,
            "layer_types": list(config.layers),
            "head_dims": dict(config.head_dims),
            "sliding_window": config.window,
            "vocabulary": config.vocab_size,
            "clusters": config.clusters,
            "clusters_read": config.read,
            "drafts_from": config.drafted_from,
        }

    def rows(self, inspected: Mapping[str, Any]) -> dict[str, str]:
        found = inspected[self.name]
        if found is None:
            return {}
        if "problem" in found:
            return {"reads": f"unknown: {found['problem']}", "drafts from": "unknown"}
        layers = ", ".join(
            f"{found['layer_types'].count(kind)} {kind.removesuffix('_attention')} (heads of {dim})"
            for kind, dim in found["head_dims"].items()
        )
        width, few = found["target_hidden_size"], ""
        if found["clusters"]:
            few = f", {found['clusters_read']} of {found['clusters']:,} clusters"
        return {
            "reads": f"keys and values of a Gemma 4 of width {width}: {layers}",
            "drafts from": f"{found['drafts_from']:,} of {found['vocabulary']:,} tokens{few}",
        }

    # Running

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.assistant import drafter

        assert weights.drafter is not None
        return drafter.load(
            weights.drafter,
            target,
            weights.reads,
            weights.drafter_bits,
            weights.drafter_group_size or DRAFTER_GROUP_SIZE,
        )

    def calibrate(self, session: "Session") -> tuple[str, dict[str, float]]:
        from llm_specdec.drafters.assistant.calibration import calibrate

        return calibrate(session)


KIND = Assistant()
