"""What a run is asked for, and what it counts: plain data."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from llm_specdec.constraints.masks import Constraint
from llm_specdec.engine.sampling.logits_processors import Sampling


@dataclass(frozen=True)
class Request:
    """One run. `ends_at(token)` is asked once for every committed token, in order, and ends
    the run after that token (a stop string is complete); `eos` tokens end it too. A token must
    be allowed by all `constraints`, which belong to this run alone. `boundaries` gives the
    lengths of the prompt's beginnings that other prompts are likely to share; asked where their
    states must be kept while the prompt is read."""

    prompt: Sequence[int]
    max_tokens: int
    eos: frozenset[int] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    ends_at: Callable[[int], bool] = lambda token: False
    constraints: Sequence[Constraint] = ()
    boundaries: Callable[[], Sequence[int]] = lambda: ()


class Round(NamedTuple):
    """One target pass after the first token, and what came of it."""

    drafted: int  # draft tokens it read, beside the pending one
    committed: int


@dataclass
class RunStats:
    """What a run counted. Every target pass after the first token is a round."""

    completion: list[int] = field(default_factory=list)
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    lengths: Counter[int] = field(default_factory=Counter)  # rounds by draft tokens
    positions: Counter[int] = field(default_factory=Counter)  # accepted by position in a draft
    by_source: dict[str, list[int]] = field(default_factory=dict)  # [rounds, drafted, accepted]
    passes: list[Round] = field(default_factory=list)  # in order: the widths of the whole text
    finish_reason: Literal["stop", "length", "interrupted"] = "interrupted"

    def count(self, source: str, drafted: int, accepted: int, committed: int) -> None:
        """Count a round; `source` says who proposed (of no interest where nothing was)."""
        self.passes.append(Round(drafted, committed))
        if drafted:
            before = self.by_source.get(source, (0, 0, 0))
            now = (1, drafted, accepted)
            self.by_source[source] = [a + b for a, b in zip(before, now, strict=True)]
        self.rounds += 1
        self.drafted += drafted
        self.accepted += accepted
        self.lengths[drafted] += 1
        self.positions.update(range(accepted))
