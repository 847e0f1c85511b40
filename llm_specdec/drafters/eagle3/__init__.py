"""EAGLE-3: a layer or a few that read several of the target's hidden states, and go on from
their own.

config        what the files say, in three dialects; no tensors
fit           which target it suits, by shapes
weights       a folder → `Eagle3Model`
model         the mathematics
drafter       the drafter the loop drives
calibration   which layers' states are meant
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import DRAFTER_GROUP_SIZE, DraftPass, DraftSource
from llm_specdec.drafters.trained import Trained

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.drafters.eagle3.config import Eagle3Config
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Session, Weights
    from llm_specdec.engine.target import Target


class Eagle3(Trained["Eagle3Config"]):
    name = files = "eagle3"
    files_words = "an EAGLE-3 drafter"
    sources = (DraftSource("eagle3", 5),)
    readings = MappingProxyType(
        {
            "outputs": "after the layers it names",
            "inputs": "before the layers it names",
            "final_norm": "after the final norm",
        }
    )
    cached_as = "llama"

    # Recognising its files

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        from llm_specdec.drafters.eagle3.config import is_eagle3

        return frozenset(contents.tensors if is_eagle3(contents) else ())

    def read(self, contents: "CheckpointFiles") -> "Eagle3Config":
        from llm_specdec.drafters.eagle3 import config

        return config.read(contents)

    def build(self, folder: Path, config: "Eagle3Config") -> None:
        from llm_specdec.drafters.eagle3 import weights

        weights.load(folder, config)

    def differences(self, target: "Anatomy", config: "Eagle3Config") -> list[str]:
        from llm_specdec.drafters.eagle3 import fit

        return fit.mismatches(target, config)

    # What it costs

    def draft_pass(self, target: "Anatomy", drafter: "Anatomy | None") -> DraftPass | None:
        """The target's output matrix is read where it has none of its own."""
        config = self.stored(drafter).config if drafter else None
        if drafter is None or config is None:
            return None
        borrowed = 0 if config.head_rows else target.output_bytes
        return DraftPass(drafter.pass_bytes + borrowed, 1)

    def cache_bytes(self, target: "Anatomy", drafter: "Anatomy | None", tokens: int) -> int:
        from llm_specdec.checkpoint.caches import stepped
        from llm_specdec.checkpoint.weights import element_bytes

        config = self.stored(drafter).config if drafter else None
        if config is None:
            return 0
        width = 2 * config.layers * config.kv_heads * config.head_dim
        return width * stepped(tokens) * element_bytes(target.dtype)

    # Words

    def described(self, config: "Eagle3Config") -> dict[str, Any]:
        return {
            "dialect": config.dialect,
            "layer_ids": list(config.ids) if config.ids else None,
            "reads": config.usual,
            "hidden_states": config.taps,
            "width": config.fused // config.taps,
            "draft_vocabulary": config.head_rows or config.vocab_size,
            "vocabulary": config.vocab_size,
            "own_embedding": config.own_embedding,
            "own_output_matrix": bool(config.head_rows),
        }

    def rows(self, inspected: Mapping[str, Any]) -> dict[str, str]:
        found = inspected[self.name]
        if found is None:
            return {}
        if "problem" in found:
            return {"reads": f"unknown: {found['problem']}"}
        ids = found["layer_ids"]
        named = f"layers {', '.join(map(str, ids))}" if ids else "three layers, by default"
        places = {"inputs": f"before {named}", "outputs": f"after {named}"}
        where = places.get(found["reads"], "after the last norm")
        return {
            "layout": found["dialect"],
            "reads": f"the target's states {where}, each {found['width']} wide",
            "drafts from": f"{found['draft_vocabulary']:,} of {found['vocabulary']:,} tokens",
        }

    # Running

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.eagle3 import drafter
        from llm_specdec.engine.taps import decoder_layers

        assert weights.drafter is not None
        return drafter.load(
            weights.drafter,
            target,
            len(decoder_layers(target.model)),
            weights.reads,
            weights.drafter_bits,
            weights.drafter_group_size or DRAFTER_GROUP_SIZE,
        )

    def calibrate(self, session: "Session") -> tuple[str, dict[str, float]]:
        from llm_specdec.drafters.eagle3.calibration import calibrate

        return calibrate(session)


KIND = Eagle3()
