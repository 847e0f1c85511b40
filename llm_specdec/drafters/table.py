"""The kinds of drafters there are. Nothing else lists them or knows one by name."""

from llm_specdec.drafters import assistant, dflash, dspark, eagle3, foreign, lookup, model, mtp
from llm_specdec.drafters.kind import Kind, NoDrafter

NONE = NoDrafter()
HELPER = lookup.KIND  # whose long matches may replace another drafter's proposal

_IN_ORDER = (
    NONE,
    lookup.KIND,
    mtp.KIND,
    model.KIND,
    *foreign.NAMED,  # before those whose tensors some of them have, too
    dspark.KIND,  # before DFlash, whose tensors it has, too
    dflash.KIND,
    eagle3.KIND,
    assistant.KIND,
    foreign.UNKNOWN,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _IN_ORDER}


def words() -> tuple[str, ...]:
    """What `--drafter` and the registry may say instead of naming files."""
    return tuple(kind.name for kind in KINDS.values() if kind.is_word)


def folder_kinds() -> tuple[str, ...]:
    """What a drafter of its own files may be."""
    return tuple(kind.name for kind in KINDS.values() if kind.takes_folder)


def lanes() -> tuple[str, ...]:
    """Every kind that a pairing may have."""
    return tuple(dict.fromkeys((*words(), *folder_kinds())))


def of_files(files: str) -> Kind:
    """The kind that a folder's drafter is of: see `recognise.kind_of`."""
    return next(kind for kind in KINDS.values() if kind.files == files)
