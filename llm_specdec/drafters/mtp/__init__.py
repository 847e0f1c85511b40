"""Multi-token prediction: the head that ships in a target's files, or in a repository alone.

fit           whether a head from elsewhere suits a target
layouts       names and wiring by publisher; finding a head
loading       files → head
head          the forward pass
drafter       the drafter the loop drives
calibration   which hidden states suit a head
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llm_specdec.drafters.kind import (
    DRAFTER_GROUP_SIZE,
    DraftPass,
    DraftSource,
    Kind,
    quantised_bytes,
)

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.checkpoint.files import Tensor
    from llm_specdec.drafters.mtp.layouts import StoredHead
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Session, Weights
    from llm_specdec.engine.target import Target


class PredictionHeadKind(Kind):
    name = "mtp"
    files = "mtp-sidecar"
    files_words = "a prediction head without its target"
    lane_words = "the target's own head"
    is_word = takes_folder = config_of_target = True
    sources = (DraftSource("mtp", 5),)
    readings = MappingProxyType(
        {"final_norm": "after the final norm", "last_layer": "before the final norm"}
    )

    # Recognising its files

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        head = self.part(contents)
        return frozenset(head.tensors if head else ())

    def part(self, contents: "CheckpointFiles") -> "StoredHead | None":
        from llm_specdec.drafters.mtp import layouts

        head = layouts.find(contents)
        if len(contents.beside) < len(contents.tensors):
            return head
        # Files beside the weights, and no weights: whatever is in them, it is a head's.
        alone = head or layouts.StoredHead(layouts.UNKNOWN, 0, (), 0, ())
        return replace(alone, tensors=tuple(sorted(contents.beside))) if contents.beside else None

    # Which target it fits

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        if drafter is None:
            head = _head(target)
            whole = head is not None and head.usable
            return [] if whole else ["the prediction head it drafts with is not in the files"]
        from llm_specdec.drafters.mtp import fit

        return fit.mismatches(target, drafter, _head(drafter))

    def shipped(self, target: "Anatomy") -> str:
        head = _head(target)
        usable = head is not None and head.usable
        return f"the checkpoint ships a {head.layout} prediction head" if head and usable else ""

    def lacking(self, target: "Anatomy") -> str:
        head = _head(target)
        if head is None:
            promise = ", though the config promises one" if _promised(target) else ""
            return f"no prediction head in the files{promise}"
        return f"the head in the files cannot be used ({head.fault})" if head.fault else ""

    def lost(self, target: "Anatomy") -> str:
        if _head(target) or not _promised(target):
            return ""
        return "the config promises a prediction head and the files hold none"

    def objection(self, target: "Anatomy") -> str:
        head = _head(target)
        if head is None or not head.usable:
            return ""
        return (
            f"{target.folder.name} ships its own prediction head ({head.layout} layout): "
            "a drafter beside it ran exactly and gained next to nothing where it was measured "
            "(+1.5 % at 4K); leave the drafter out"
        )

    # What it costs

    def draft_pass(self, target: "Anatomy", drafter: "Anatomy | None") -> DraftPass | None:
        head = _head(drafter or target)
        return DraftPass(head.nbytes + target.output_bytes, 1) if head else None

    def weight_bytes(
        self, target: "Anatomy", drafter: "Anatomy | None", bits: int | None, group_size: int
    ) -> int:
        source = drafter or target
        head = _head(source)
        if head is None or not bits or self.stored_bits(target, drafter):
            return head.nbytes if head else 0
        from llm_specdec.checkpoint.weights import parameters

        return quantised_bytes(parameters({}, _tensors(source)), bits, group_size)

    def stored_bits(self, target: "Anatomy", drafter: "Anatomy | None") -> int | None:
        from llm_specdec.drafters.mtp.layouts import LAYOUTS, rename

        head, tensors = _head(drafter or target), _tensors(drafter or target)
        if head is None or not head.usable or not head.hidden_size:
            return None
        places = rename(LAYOUTS[head.layout], tensors)
        stored = {inside: tensors[name] for name, inside in places.items()}
        if "projection.scales" not in stored:
            return None
        # It has two hidden states for columns, whatever they are packed in.
        return 32 * stored["projection.weight"].columns // (2 * head.hidden_size)

    def cache_bytes(self, target: "Anatomy", drafter: "Anatomy | None", tokens: int) -> int:
        from llm_specdec.checkpoint.caches import stepped
        from llm_specdec.checkpoint.weights import element_bytes

        source = drafter or target
        return _cache_width(source) * stepped(tokens) * element_bytes(source.dtype)

    # Words

    def lane_reason(self, drafter: str) -> str:
        return self.lane_words if drafter == self.name else f"the head of {drafter}"

    def inspected(self, found: "Anatomy") -> dict[str, Any]:
        head = _head(found)
        return {
            "head": head
            and {
                "layout": head.layout,
                "layers": head.depth,
                "tensors": len(head.tensors),
                "bytes": head.nbytes,
                "files": list(head.where),
                "missing": list(head.missing),
                "fault": head.fault,
            },
            "head_promised": _promised(found),
        }

    def rows(self, inspected: Mapping[str, Any]) -> dict[str, str]:
        from llm_specdec.console.sizes import gigabytes

        head, promised = inspected["head"], inspected["head_promised"]
        if head is None:
            lacked = f" (the config promises {promised}, the files lack it)" if promised else ""
            return {"head": f"none{lacked}"}
        parts = [
            head["layout"],
            f"{head['layers']} layer{'s' * (head['layers'] != 1)}",
            f"{head['tensors']} tensors",
            f"{gigabytes(head['bytes'])} in {', '.join(head['files'])}",
        ]
        fault = f"; cannot be used: {head['fault']}" if head["fault"] else ""
        return {"head": ", ".join(parts) + fault}

    # Running

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.mtp.loading import load_head

        group_size = weights.drafter_group_size or DRAFTER_GROUP_SIZE
        folder = weights.drafter or weights.target
        return load_head(folder, target, weights.reads, weights.drafter_bits, group_size)

    def calibrate(self, session: "Session") -> tuple[str, dict[str, float]]:
        from llm_specdec.drafters.mtp.calibration import calibrate

        return calibrate(session)


def _head(found: "Anatomy") -> "StoredHead | None":
    head: StoredHead | None = found.parts.get(KIND.name)
    return head


def _tensors(found: "Anatomy") -> "dict[str, Tensor]":
    """The head's."""
    head = _head(found)
    return {name: found.contents.tensors[name] for name in head.tensors} if head else {}


def _promised(found: "Anatomy") -> int:
    from llm_specdec.drafters.mtp.layouts import promised

    return promised(found.contents.text) or promised(found.contents.config)


def _cache_width(found: "Anatomy") -> int:
    """Elements that the head's own cache keeps of a token."""
    from llm_specdec.checkpoint import caches

    own = caches.layers("", found.contents.text, _tensors(found), 2)
    return sum(layer.width for layer in own or ())


KIND = PredictionHeadKind()
