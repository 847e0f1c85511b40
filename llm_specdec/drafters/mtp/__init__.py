"""Native multi-token prediction: the head that ships in the target's own files.

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

from llm_specdec.drafters.kind import DraftPass, DraftSource, Kind

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.drafters.mtp.layouts import StoredHead
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Session, Weights
    from llm_specdec.engine.target import Target


class PredictionHeadKind(Kind):
    name = "mtp"
    files = "mtp-sidecar"
    files_words = "a prediction head without its target"
    lane_words = "the target's own head"
    is_word = True
    sources = (DraftSource("mtp", 5),)
    readings = MappingProxyType(
        {"final_norm": "after the final norm", "last_layer": "before the final norm"}
    )
    only_rows = ("kind", "quantised", "head")

    # Recognising its files

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        head = self.part(contents)
        return frozenset(head.tensors if head else ())

    def part(self, contents: "CheckpointFiles") -> "StoredHead | None":
        from llm_specdec.drafters.mtp import layouts

        head = layouts.find(contents.tensors)
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
        head = _head(drafter)
        if head is None or not head.usable:
            return [f"{drafter.folder.name} holds a prediction head that lacks {_lacks(head)}"]
        if head.hidden_size not in (None, target.hidden_size):
            return [
                f"hidden size: the head is made for {head.hidden_size}, "
                f"the target has {target.hidden_size}"
            ]
        return []

    def shipped(self, target: "Anatomy") -> str:
        head = _head(target)
        usable = head is not None and head.usable
        return f"the checkpoint ships a {head.layout} prediction head" if head and usable else ""

    def lacking(self, target: "Anatomy") -> str:
        head = _head(target)
        if head is None:
            promise = ", though the config promises one" if _promised(target) else ""
            return f"no prediction head in the files{promise}"
        return "" if head.usable else f"the head in the files cannot be used (lacks {_lacks(head)})"

    def objection(self, target: "Anatomy") -> str:
        head = _head(target)
        if head is None or not head.usable:
            return ""
        return (
            f"{target.folder.name} ships its own prediction head ({head.layout} layout): "
            "a drafter beside it ran exactly and gained next to nothing where it was measured "
            "(+1.5 % at 4K); leave the drafter out"
        )

    def placement(self, target: "Anatomy", drafter: "Anatomy") -> str:
        head = _head(drafter)
        if head is None or not head.where:
            return ""
        return (
            f"a head runs from inside its target's folder: copy {head.where[0]} of "
            f"{drafter.folder.name} to mtp.safetensors in {target.folder.name}, and use "
            f"--drafter {self.name}"
        )

    # What it costs

    def draft_pass(self, target: "Anatomy", drafter: "Anatomy | None") -> DraftPass | None:
        head = _head(drafter or target)
        return DraftPass(head.nbytes + target.output_bytes, 1) if head else None

    def weight_bytes(
        self, target: "Anatomy", drafter: "Anatomy | None", bits: int | None, group_size: int
    ) -> int:
        head = _head(drafter or target)
        return head.nbytes if head else 0

    def cache_bytes(self, target: "Anatomy", drafter: "Anatomy | None", tokens: int) -> int:
        from llm_specdec.checkpoint.caches import stepped
        from llm_specdec.checkpoint.weights import element_bytes

        source = drafter or target
        return _cache_width(source) * stepped(tokens) * element_bytes(source.dtype)

    # Words

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
        lacks = f"; lacks {', '.join(head['missing'])}" if head["missing"] else ""
        return {"head": ", ".join(parts) + lacks}

    # Running

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.mtp.loading import load_head

        return load_head(weights.target, target, weights.reads)

    def calibrate(self, session: "Session") -> tuple[str, dict[str, float]]:
        from llm_specdec.drafters.mtp.calibration import calibrate

        return calibrate(session)


def _head(found: "Anatomy") -> "StoredHead | None":
    head: StoredHead | None = found.parts.get(KIND.name)
    return head


def _lacks(head: "StoredHead | None") -> str:
    return ", ".join(head.missing) if head and head.missing else "a layout"


def _promised(found: "Anatomy") -> int:
    from llm_specdec.drafters.mtp.layouts import promised

    return promised(found.contents.text) or promised(found.contents.config)


def _cache_width(found: "Anatomy") -> int:
    """Elements that the head's own cache keeps of a token."""
    from llm_specdec.checkpoint import caches

    head, everything = _head(found), found.contents.tensors
    own = {name: everything[name] for name in head.tensors} if head else {}
    return sum(layer.width for layer in caches.layers("", found.contents.text, own, 2) or ())


KIND = PredictionHeadKind()
