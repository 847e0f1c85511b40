"""DSpark: a DFlash block whose draft tokens also depend on the one before.

A low-rank bias, looked up by the token before, is added to the logits of each slot; a confidence
for each slot says how far the block is worth checking. Packagings: DeepSpec's, `speculators`',
SpecForge's and LiquidAI's.

config    config.json → `DSparkConfig`; no tensors
model     the block model of DFlash with both heads
drafter   drawing in sequence, and where to stop
"""

from pathlib import Path
from typing import TYPE_CHECKING

from llm_specdec.drafters.dflash import DFlash
from llm_specdec.drafters.kind import DRAFTER_GROUP_SIZE, DraftSource

if TYPE_CHECKING:
    from llm_specdec.checkpoint import CheckpointFiles
    from llm_specdec.drafters.dflash.config import TargetNeeds
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Weights
    from llm_specdec.engine.target import Target


class DSpark(DFlash):
    name = files = "dspark"
    files_words = "a DSpark drafter"
    marks = frozenset({"hidden_norm.weight", "fc.weight", "markov_head.markov_w1.weight"})
    sources = (DraftSource("dspark", 7),)

    def part(self, contents: "CheckpointFiles") -> "TargetNeeds":
        from llm_specdec.drafters.dspark import config

        return config.needs(contents)

    def check(self, folder: Path) -> None:
        from llm_specdec.drafters.dspark import config, drafter

        drafter.built(folder, config.read(folder))

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.dspark import drafter

        assert weights.drafter is not None
        group_size = weights.drafter_group_size or DRAFTER_GROUP_SIZE
        return drafter.load(
            weights.drafter, target, weights.drafter_bits, group_size, shortlist=True
        )


KIND = DSpark()
