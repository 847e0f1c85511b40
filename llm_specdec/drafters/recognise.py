"""A folder, as a target or as a drafter of some kind: told by its tensors, hardly by its config."""

from pathlib import Path

from llm_specdec.checkpoint import (
    NO_MODEL,
    TARGET,
    Anatomy,
    CheckpointFiles,
    anatomy_of,
    contents_of,
)
from llm_specdec.drafters.kind import Kind
from llm_specdec.drafters.table import KINDS
from llm_specdec.errors import CheckpointError


def read(folder: Path) -> Anatomy:
    """The anatomy of a target or drafter, from its files alone, without loading a weight.

    Raises CheckpointError when the folder holds no such model or a file is damaged.
    """
    contents = contents_of(folder)
    name = _named(contents)
    if name in NO_MODEL:
        raise CheckpointError(f"{folder}: {NO_MODEL[name]}")
    alone, held = _alone(contents), _held(contents)
    kinds = [alone] if alone else list(held)
    return anatomy_of(
        contents,
        name,
        apart=_apart(held),
        parts={kind.name: part for kind in kinds if (part := kind.part(contents)) is not None},
        cached_as=alone.cached_as if alone else "",
        counted=not (alone and alone.config_of_target),
    )


def kind_of(folder: Path) -> str:
    """TARGET, the `Kind.files` of a drafter, or why it is no model (a key of NO_MODEL).
    Raises CheckpointError where a file is damaged."""
    return _named(contents_of(folder))


def is_drafter(folder: Path) -> bool:
    """Whether a folder holds a drafter alone. Raises CheckpointError."""
    return _alone(contents_of(folder)) is not None


def apart(folder: Path) -> frozenset[str]:
    """Names of tensors in a folder that are no part of its language model."""
    return _apart(_held(contents_of(folder)))


def _named(contents: CheckpointFiles) -> str:
    if contents.form != "model":
        return contents.form
    if alone := _alone(contents):
        return alone.files
    return TARGET if contents.has_config else "unknown"


def _alone(contents: CheckpointFiles) -> Kind | None:
    """The kind of drafter that all the tensors belong to."""
    held = _held(contents).items()
    return next((kind for kind, names in held if len(names) == len(contents.tensors)), None)


def _held(contents: CheckpointFiles) -> dict[Kind, frozenset[str]]:
    """The kinds of drafters that have tensors there."""
    return {kind: names for kind in KINDS.values() if (names := kind.tensors(contents))}


def _apart(held: dict[Kind, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(names for kind, names in held.items() if kind.in_target))
