"""The table of a target's token ids: which have a token, which end an answer, how many positions
there are. Tokenizer, masks, `inspect` and the loop all go by it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from llm_specdec.checkpoint.agreement import embeddings
from llm_specdec.checkpoint.contents import CheckpointFiles
from llm_specdec.checkpoint.files import read_json
from llm_specdec.checkpoint.positions import Positions, positions_of
from llm_specdec.errors import CheckpointError

MOST_ROWS = 1 << 24  # of an embedding; the largest known has 262,208


class TokenIds(NamedTuple):
    """What a tokenizer knows: the ids that have a token, and its own end token. As its files
    declare them or, the same, as it has them when loaded. No ids: only loading can tell."""

    ids: Collection[int]
    end: int | None = None


@dataclass(frozen=True)
class Vocabulary:
    """Ids from `size` on and `holes` have no token, and so no chance; `beyond` are ids that have
    one and no row in the embedding, so that no prompt may hold them."""

    rows: int
    size: int
    holes: tuple[int, ...]
    beyond: tuple[int, ...]
    ends: tuple[int, ...]
    positions: Positions
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def missing(self, prompt: Iterable[int]) -> int | None:
        """The first id of a prompt that the model has no row for; None where it has them all."""
        return next((token for token in prompt if not 0 <= token < self.rows), None)


def vocabulary_of(contents: CheckpointFiles, tokens: TokenIds) -> Vocabulary:
    """Raises CheckpointError where a file is damaged."""
    rows = _rows(contents)
    said = _said_ends(contents, tokens)
    asked = set[int]().union(*said.values())
    ends = {end for end in asked if 0 <= end < rows}
    known = {*ends, *(token for token in tokens.ids if 0 <= token < rows)}
    size = max(known, default=-1) + 1 if tokens.ids else rows
    holes = tuple(token for token in range(size) if token not in known) if tokens.ids else ()
    beyond = tuple(sorted(token for token in tokens.ids if token >= rows))
    return Vocabulary(
        rows,
        size,
        holes,
        beyond,
        tuple(sorted(ends)),
        positions_of(contents.text, contents.tensors),
        notes=(*_of_holes(holes), *_of_ends(said)),
        warnings=(*_of_beyond(beyond, rows), *_of_lost(asked - ends, rows)),
    )


def _rows(contents: CheckpointFiles) -> int:
    """Rows of the embedding; what the config says where tensors that may be it differ."""
    rows = {contents.tensors[name].rows for name in embeddings(contents.tensors)}
    said = rows.pop() if len(rows) == 1 else contents.text.get("vocab_size")
    return min(said or MOST_ROWS, MOST_ROWS)


def _said_ends(contents: CheckpointFiles, tokens: TokenIds) -> dict[str, set[int]]:
    """Where end tokens are named → which. Different files may know of different ones: a chat
    model ends a turn otherwise than its base ends a text."""
    return {
        "config.json": _ends(contents.config) | _ends(contents.text),
        "generation_config.json": _ends(generation_config(contents.folder)),
        "the tokenizer": set() if tokens.end is None else {tokens.end},
    }


def _ends(config: Mapping[str, Any]) -> set[int]:
    value = config.get("eos_token_id")
    return {n for n in (value if isinstance(value, list) else [value]) if type(n) is int}


def generation_config(folder: Path) -> dict[str, Any]:
    """{} where it cannot be read: the card reader reports that."""
    try:
        return read_json(folder / "generation_config.json")
    except CheckpointError:
        return {}


# What people are told


def _of_holes(holes: tuple[int, ...]) -> list[str]:
    if not holes:
        return []
    return [f"{_ids(holes)} without a token among the others: never drawn"]


def _of_ends(said: Mapping[str, set[int]]) -> list[str]:
    named = {where: ends for where, ends in said.items() if ends}
    if len({frozenset(ends) for ends in named.values()}) < 2:
        return []
    parts = [f"{where} {', '.join(map(str, sorted(ends)))}" for where, ends in named.items()]
    return [f"end tokens differ, and all of them end an answer: {'; '.join(parts)}"]


def _of_beyond(beyond: tuple[int, ...], rows: int) -> list[str]:
    if not beyond:
        return []
    return [
        f"the tokenizer has {_ids(beyond)} beyond the {rows:,} rows of the embedding: "
        "a prompt with such a token is refused"
    ]


def _of_lost(lost: set[int], rows: int) -> list[str]:
    if not lost:
        return []
    named = ", ".join(map(str, sorted(lost)))
    return [f"end token {named} is none of the model's, whose ids end at {rows - 1:,}"]


def _ids(ids: tuple[int, ...]) -> str:
    return f"{len(ids):,} ids (first {ids[0]})" if len(ids) > 1 else f"id {ids[0]}"
