"""DFlash and DFlash 2: a small block drafter that reads hidden states of the target.

One pass over `[pending token, mask, mask, …]` proposes a whole block. Each layer attends to the
target's hidden states of all committed tokens, projected to keys and values, and to the block
itself. Layout and fields: z-lab's checkpoints and the PyPI package `dflash` 0.1.0; `speculators`
packagings (own, smaller output matrix) load too.

config    config.json → what it asks of a target, and `DFlashConfig`; no tensors
weights   a folder → `BlockModel`, renamed, fused, cast and quantised
model     the mathematics
drafter   the drafter the loop drives
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import (
    DRAFTER_GROUP_SIZE,
    DraftPass,
    DraftSource,
    Kind,
    tokenizer_mismatches,
)

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.drafters.dflash.config import TargetNeeds
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Weights
    from llm_specdec.engine.target import Target

_PADDING = 1024  # entries by which two paddings of one vocabulary stay apart


class DFlash(Kind):
    name = files = "dflash"
    files_words = "a DFlash drafter"
    takes_folder = True
    marks = frozenset({"hidden_norm.weight", "fc.weight"})  # tensors that every one has
    sources = (DraftSource("dflash", 7),)
    fallback = 3
    cached_as = "llama"  # keys and values by layer_types

    # Recognising its files

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        return frozenset(contents.tensors if self.marks <= contents.tensors.keys() else ())

    def part(self, contents: "CheckpointFiles") -> "TargetNeeds":
        from llm_specdec.drafters.dflash import config

        return config.needs(contents)

    def check(self, folder: Path) -> None:
        from llm_specdec.drafters.dflash import config, weights

        weights.load(folder, config.read(folder))

    # Which target it fits

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        assert drafter is not None
        shapes = _shape_mismatches(target, drafter, self._needs(drafter))
        if drafter.tokenizer is None:
            return shapes  # it works on the target's token ids
        return [*shapes, *tokenizer_mismatches(target, drafter)]

    # What it costs

    def draft_pass(self, target: "Anatomy", drafter: "Anatomy | None") -> DraftPass | None:
        """The target's output matrix is read, too."""
        if drafter is None:
            return None
        return DraftPass(drafter.pass_bytes + target.output_bytes, self._needs(drafter).longest)

    # Words

    def inspected(self, found: "Anatomy") -> dict[str, Any]:
        return {self.name: asdict(self._needs(found)) if self.name in found.parts else None}

    def rows(self, inspected: Mapping[str, Any]) -> dict[str, str]:
        found = inspected[self.name]
        if found is None:
            return {}
        ids, layers = found["target_layer_ids"], found["num_target_layers"]
        of = f" of {layers}" if layers else ""
        wide = f", each {found['fused'] // len(ids)} wide" if found["fused"] and ids else ""
        return {
            "reads": f"the target's states after layers {', '.join(map(str, ids))}{of}{wide}",
            "drafts": f"up to {found['longest']} tokens a pass",
        }

    def _needs(self, drafter: "Anatomy") -> "TargetNeeds":
        needs: TargetNeeds = drafter.parts[self.name]
        return needs

    # Running

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.dflash import drafter

        assert weights.drafter is not None
        group_size = weights.drafter_group_size or DRAFTER_GROUP_SIZE
        return drafter.load(
            weights.drafter, target, weights.drafter_bits, group_size, shortlist=True
        )


def _shape_mismatches(target: "Anatomy", drafter: "Anatomy", needs: "TargetNeeds") -> list[str]:
    found = []
    ids = needs.target_layer_ids
    wanted = needs.fused // len(ids) if needs.fused and ids else drafter.hidden_size
    if wanted != target.hidden_size:
        found.append(
            f"hidden size: the drafter reads {wanted}, the target has {target.hidden_size}"
        )
    if needs.num_target_layers not in (None, target.layers):
        found.append(
            f"layers: the drafter is made for {needs.num_target_layers}, "
            f"the target has {target.layers}"
        )
    if ids and max(ids) >= target.layers:
        found.append(
            f"layer ids: the drafter reads layer {max(ids)}, "
            f"the target's last is {target.layers - 1}"
        )
    tokens = target.tokenizer.highest_id + 1 if target.tokenizer else 0
    sizes = (drafter.vocab_size, target.vocab_size)
    if abs(sizes[0] - sizes[1]) >= _PADDING or min(sizes) < tokens:
        found.append(
            f"vocabulary: the drafter has {sizes[0]:,} entries, the target {sizes[1]:,}"
            + (f" for {tokens:,} tokens" if tokens else "")
        )
    elif needs.mask_token_id >= target.vocab_size:
        found.append(
            f"mask token: the drafter's is {needs.mask_token_id}, "
            f"the target's last is {target.vocab_size - 1}"
        )
    return found


KIND = DFlash()
