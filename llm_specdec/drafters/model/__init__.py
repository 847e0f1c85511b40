"""A small autoregressive model with the tokenizer of the target."""

from pathlib import Path
from typing import TYPE_CHECKING

from llm_specdec.drafters.kind import DRAFTER_GROUP_SIZE, DraftSource, Kind, tokenizer_mismatches

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Weights
    from llm_specdec.engine.target import Target


class SmallModel(Kind):
    name = "model"
    files = "target"  # any language model may draft for a larger one
    files_words = "a language model"
    takes_folder = True
    sources = (DraftSource("model", 7),)

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        return [
            *drafter.problems(),
            *_too_few_positions(target, drafter),
            *tokenizer_mismatches(target, drafter),
        ]

    def check(self, folder: Path) -> None:
        from llm_specdec.drafters.common import language_model

        language_model.check(folder)

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.common import language_model
        from llm_specdec.drafters.model.drafter import ModelDrafter

        assert weights.drafter is not None
        group_size = weights.drafter_group_size or DRAFTER_GROUP_SIZE
        small = language_model.load(
            weights.drafter, weights.drafter_bits, group_size, target.vocabulary
        )
        return ModelDrafter(small, target.vocab_size)


def _too_few_positions(target: "Anatomy", drafter: "Anatomy") -> list[str]:
    has, needed = drafter.positions, target.positions.context
    if not has.hard or has.context >= needed:
        return []
    return [f"positions: the drafter has {has.context:,} and none beyond, the target {needed:,}"]


KIND = SmallModel()
