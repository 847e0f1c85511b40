"""How many tokens a model was made for, and whether there is anything beyond them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from llm_specdec.checkpoint import weights
from llm_specdec.checkpoint.files import MOST, Tensor

UNSAID = 1 << 17  # tokens; of a model whose files name no length, as recurrent ones do

_LENGTHS = (
    "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length",
    "seq_length", "seq_len",
)  # fmt: skip
_ROPE = ("rope_scaling", "rope_parameters")
_TABLES = {"wpe", "embed_positions", "position_embeddings"}


@dataclass(frozen=True)
class Positions:
    """native: tokens the model was made for, None where its files name no length. hard: they are
    rows of a table; a model that computes its positions can go on beyond them, if badly."""

    native: int | None
    hard: bool = False

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together unless a setting says otherwise."""
        return self.native or UNSAID


def positions_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Positions:
    """config: of the language model, what stands around it included; tensors: its own."""
    said = next((n for key in _LENGTHS if _counts(n := config.get(key))), None)
    rows = [t.rows for name, t in tensors.items() if _is_table(name) and t.shape]
    if rows:
        return Positions(min(min(rows), said or MOST), hard=True)
    return Positions(max((n for n in (said, *_stretched(config)) if n), default=None))


def _stretched(config: Mapping[str, Any]) -> Iterator[int]:
    """What the scaling of rotary positions makes of the length that the model was trained at.
    Some configs give the one length, some the other."""
    places = [found for key in _ROPE if isinstance(found := config.get(key), dict)]
    places += [one for place in places for one in place.values() if isinstance(one, dict)]
    for scaling in places:
        trained = scaling.get("original_max_position_embeddings")
        factor = scaling.get("factor")
        if _counts(trained) and isinstance(factor, int | float) and 1 <= factor <= MOST:
            yield min(int(trained * factor), MOST)


def _counts(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= MOST


def _is_table(name: str) -> bool:
    module, _, kind = name.rpartition(".")
    return weights.is_text(name) and kind == "weight" and module.rpartition(".")[2] in _TABLES
