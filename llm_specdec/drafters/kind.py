"""What the package asks of a kind of drafter. No tensors, no engine.

A kind is a subclass of `Kind`; its answers here are those that most kinds give, so that a new
one says only where it differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_specdec.checkpoint import Anatomy, CheckpointFiles
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Session, Weights
    from llm_specdec.engine.target import Target

DRAFTER_GROUP_SIZE = 64  # elements; of a drafter that is quantised when it is loaded


@dataclass(frozen=True)
class DraftSource:
    """Proposals of one quality, estimated apart from others.

    longest: draft tokens that `auto` asks for at most. prior: the acceptance believed before
    anything was seen, None where nothing better than the policy's own is known.
    """

    name: str
    longest: int
    prior: float | None = None


@dataclass(frozen=True)
class DraftPass:
    """Bytes that one pass of a drafter reads, and draft tokens that it gives."""

    nbytes: int
    tokens: int


class Kind:
    """A kind of drafter. `target` and `drafter` are what their files say; `drafter` is None
    where the drafter has no files but the target's."""

    # Names
    name: str  # in the registry, in lanes and in receipts
    files: str = ""  # `Anatomy.kind` of a folder that holds such a drafter alone
    files_words: str = ""  # the same in words
    lane_words: str = ""  # what drafts, where `--drafter` names no files

    # Where it comes from
    is_word: bool = False  # `--drafter NAME`: its files, if any, are the target's
    takes_folder: bool = False  # `--drafter PATH_OR_REPO`
    has_weights: bool = True
    config_of_target: bool = False  # its config is its target's, and counts that one's layers

    # Limits and defaults
    sources: tuple[DraftSource, ...]  # every `Drafter.source` there is; its own first
    fallback: int = 2  # draft tokens where costs could not be measured
    helped: bool = True  # the table's helper may propose in its place

    # Hidden states of the target among which `calibrate` chooses → in words
    readings: Mapping[str, str] = MappingProxyType({})
    cached_as: str = ""  # the model type whose caches a drafter's layers have

    @property
    def in_target(self) -> bool:
        """Whether its tensors lie among the target's, apart from the language model."""
        return self.is_word and self.has_weights

    # Recognising its files

    def tensors(self, contents: "CheckpointFiles") -> frozenset[str]:
        """Names of the tensors that belong to such a drafter. Where these are all there is, the
        folder holds a drafter; where they are some of them, a target that ships one."""
        return frozenset()

    def part(self, contents: "CheckpointFiles") -> Any:
        """What its files say, kept in `Anatomy.parts` under its name. Raises CheckpointError."""
        return None

    def check(self, folder: Path) -> None:
        """Refuse now what loading would, as far as that shows without reading weights. Raises
        CheckpointError, UnsupportedError."""

    # Which target it fits

    def mismatches(self, target: "Anatomy", drafter: "Anatomy | None") -> list[str]:
        """What keeps it from drafting for this target, with both figures; [] if nothing.
        Raises CheckpointError when a tokenizer cannot be read."""
        return []

    def shipped(self, target: "Anatomy") -> str:
        """Why the target's own files do for a drafter of this kind; "" where they do not."""
        return ""

    def lacking(self, target: "Anatomy") -> str:
        """Why they do not, where they would have to; "" where nothing is lacking."""
        return ""

    def objection(self, target: "Anatomy") -> str:
        """Why a drafter of another kind should not run beside the one that is `shipped`."""
        return ""

    def lost(self, target: "Anatomy") -> str:
        """Why a drafter that another build of the target ships could be taken from there; ""
        where it could not, or need not."""
        return ""

    # What it costs

    def draft_pass(self, target: "Anatomy", drafter: "Anatomy | None") -> DraftPass | None:
        """One pass of it, None where there is nothing to read."""
        return None if drafter is None else DraftPass(drafter.pass_bytes, 1)

    def stored_bits(self, target: "Anatomy", drafter: "Anatomy | None") -> int | None:
        """Of one that is stored quantised."""
        packed = drafter.quantisation if drafter else None
        return packed.bits if packed else None

    def weight_bytes(
        self, target: "Anatomy", drafter: "Anatomy | None", bits: int | None, group_size: int
    ) -> int:
        """Its weights in memory, quantised to `bits` where that is given."""
        if drafter is None:
            return 0
        return (
            quantised_bytes(drafter.parameters, bits, group_size)
            if bits
            else (drafter.weight_bytes)
        )

    def cache_bytes(self, target: "Anatomy", drafter: "Anatomy | None", tokens: int) -> int:
        """What it keeps in memory of a run of so many tokens."""
        return (drafter.kv_bytes(tokens) or 0) if drafter else 0

    # Words

    def lane_reason(self, drafter: str) -> str:
        """What drafts, for a lane of this kind. drafter: as the registry has it."""
        return self.lane_words if drafter == self.name else f"drafter {drafter}"

    def inspected(self, found: "Anatomy") -> dict[str, Any]:
        """What `inspect --json` has of it, about a target as about a drafter."""
        return {}

    def rows(self, inspected: Mapping[str, Any]) -> dict[str, str]:
        """The same for people: label → text, from what `inspect --json` has of a folder."""
        return {}

    def made_for(self, drafter: "Anatomy") -> str | None:
        """The target that the config names, where it names one."""
        config = drafter.contents.config
        speculators = config.get("speculators_config")
        verifier = speculators.get("verifier") if isinstance(speculators, dict) else None
        named = verifier.get("name_or_path") if isinstance(verifier, dict) else None
        found = [named, *map(config.get, ("base_model_name_or_path", "target_model_name_or_path"))]
        return next((name for name in found if name and isinstance(name, str)), None)

    @property
    def usage(self) -> str:
        """What to do with a folder that holds it alone."""
        return "never alone: llm specdec add NAME --target MODEL --drafter THIS"

    # Running

    def load(self, weights: "Weights", target: "Target") -> "Drafter | None":
        """The drafter in memory. Raises CheckpointError, UnsupportedError, PairingError."""
        raise NotImplementedError

    def calibrate(self, session: "Session") -> tuple[str, dict[str, float]]:
        """Which of `readings` suits this target, and the acceptance with each."""
        raise NotImplementedError


def quantised_bytes(parameters: int, bits: int, group_size: int) -> int:
    """Two float16 values, scale and bias, for each group."""
    return round(parameters * (bits + 32 / group_size) / 8)


class NoDrafter(Kind):
    """The target alone: the absence of a drafter, so that every lane has a kind."""

    name = "none"
    is_word = True
    has_weights = False
    sources = (DraftSource("none", 0),)
    fallback = 0
    helped = False

    def load(self, weights: "Weights", target: "Target") -> None:
        return None


def tokenizer_mismatches(target: "Anatomy", drafter: "Anatomy") -> list[str]:
    """Where their tokenizers differ. Raises CheckpointError when one cannot be read."""
    from llm_specdec.checkpoint import compare_tokenizers

    differences = compare_tokenizers(target.folder, drafter.folder)
    return [f"tokenizer: {line}" for line in differences]
