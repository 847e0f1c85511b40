"""How many draft tokens a round asks for.

A policy must not read the clock: with the same seed and the same stored costs a run drafts the
same lengths, so sampled text can be repeated.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from llm_specdec.engine.costs import Costs

DECAY = 0.97  # a round's weight in the running acceptance, per later round: the last ~33 count
OTHER_DECAY = 0.985  # the same, per round in which another source drafted or none
PRIOR_RATE = 0.4  # acceptance believed before anything was seen
PRIOR_WEIGHT = 2.0  # rounds that this belief is worth
HISTORY_WEIGHT = 8.0  # rounds that the pairing's logged history is worth
REPICK = 4  # rounds a chosen length stands before another may replace it
HYSTERESIS = 1.03  # gain in expected speed that a change of length must promise
PROBE_SHARE = 0.015  # of the time of a parked drafter's run that probing may cost
PROBE_EVERY = (24, 48)  # plain tokens between two probes, at least and at most


@dataclass(frozen=True)
class Limits:
    """What is known of who may propose before a run, by source, the drafter's own first.

    longest: draft tokens that `auto` asks for at most. priors: acceptance believed before
    anything was seen, where it is known better than PRIOR_RATE. fallback: draft tokens where
    costs could not be measured: long enough to pay, short enough not to hurt. timed: whether a
    draft takes time worth measuring.
    """

    longest: Mapping[str, int]
    priors: Mapping[str, float] = field(default_factory=dict)
    fallback: int = 0
    timed: bool = True

    @property
    def own(self) -> int:
        """The longest draft of the drafter's own."""
        return next(iter(self.longest.values()))


ALONE = Limits({"none": 0}, timed=False)  # of a target without a drafter


class Pick(NamedTuple):
    """Who drafts in a round, and how many tokens; 0 decodes one token without a draft. anew:
    lengths that were chosen anew to find out, by source; they stand once `observe` is told."""

    source: str
    length: int
    anew: Mapping[str, int] = {}


class Policy(Protocol):
    """`source` names who would propose (a drafter's kind; lookup by length of its match)."""

    adapts: bool  # to acceptance and costs
    longest: int  # the longest length ever asked for
    state: Literal["drafting", "parked"]

    @property
    def reason(self) -> str | None:
        """Why the drafter is parked, or drafts as it does, where that needs saying."""
        ...

    def pick(self, sources: Sequence[str], context: int) -> Pick:
        """Who of `sources` drafts in the next round, at `context` committed tokens. Changes
        nothing, and may be asked any number of times."""
        ...

    def observe(self, source: str, drafted: int, accepted: int, pick: Pick | None = None) -> None:
        """Told after every round, plain ones too (drafted 0). pick: the last one that was asked
        for since the round before, if any."""
        ...


class Fixed:
    """Always the same length: a pinned `--draft-tokens N`, or 0 for the target alone."""

    adapts = False
    state: Literal["drafting", "parked"] = "drafting"

    def __init__(self, length: int, reason: str | None = None) -> None:
        self.longest, self.reason = length, reason

    def pick(self, sources: Sequence[str], context: int) -> Pick:
        return Pick(sources[0], self.longest)

    def observe(self, source: str, drafted: int, accepted: int, pick: Pick | None = None) -> None:
        pass


class Acceptance:
    """Running estimate of P(draft token i accepted | all before it accepted), by position.

    Counts fade by DECAY a round. A position's prior is the estimate of the one before it, so a
    position never drafted is believed to do as well as the last one that was.
    """

    def __init__(self, history: Sequence[tuple[int, int]] = (), prior: float = PRIOR_RATE) -> None:
        """history: (accepted, drafted) by position, of earlier runs."""
        self._prior = prior
        self._tested: list[float] = []
        self._accepted: list[float] = []
        for accepted, drafted in history:
            weight = min(drafted, HISTORY_WEIGHT)
            self._tested.append(weight)
            self._accepted.append(weight * accepted / drafted if drafted else 0.0)

    def update(self, drafted: int, accepted: int) -> None:
        missing = drafted - len(self._tested)
        self._tested += [0.0] * missing
        self._accepted += [0.0] * missing
        self.fade(DECAY)
        for i in range(min(accepted + 1, drafted)):
            self._tested[i] += 1.0
            self._accepted[i] += i < accepted

    def fade(self, factor: float) -> None:
        self._tested = [tested * factor for tested in self._tested]
        self._accepted = [accepted * factor for accepted in self._accepted]

    def expected(self, longest: int) -> list[float]:
        """Expected tokens of a round (bonus token included) for lengths 0 to `longest`."""
        tokens, reach, rate = [1.0], 1.0, self._prior
        for i in range(longest):
            tested = self._tested[i] if i < len(self._tested) else 0.0
            accepted = self._accepted[i] if i < len(self._accepted) else 0.0
            rate = (accepted + PRIOR_WEIGHT * rate) / (tested + PRIOR_WEIGHT)
            reach *= rate
            tokens.append(tokens[-1] + reach)
        return tokens


class Auto:
    """The length with the best expected tokens per second, from stored costs and the running
    acceptance; 0 parks the drafter, and a rare probe of one token looks again.

    Sources are estimated apart: a long lookup match is a different drafter from a short one,
    and where two could propose, the one that promises more does.
    """

    adapts = True

    def __init__(
        self,
        costs: Costs,
        limits: Limits,
        history: Sequence[tuple[int, int]] = (),
    ) -> None:
        """history: (accepted, drafted) by position, of earlier runs of the first source."""
        self.longest = max(limits.longest.values())
        self._limits, self._costs = limits.longest, costs
        self._acceptance = {
            source: Acceptance(() if i else history, limits.priors.get(source, PRIOR_RATE))
            for i, source in enumerate(limits.longest)
        }
        self._chosen: dict[str, int] = {}
        self._stands: dict[str, int] = defaultdict(int)  # rounds the chosen length stood
        self._plain = PROBE_EVERY[1]  # tokens since the last draft; the first look is due at once
        self.state: Literal["drafting", "parked"] = "drafting"

    @property
    def reason(self) -> str | None:
        return "drafting would be slower at its acceptance" if self.state == "parked" else None

    def pick(self, sources: Sequence[str], context: int) -> Pick:
        """Raises LookupError for a source that the drafter's kind does not list."""
        if unknown := [source for source in sources if source not in self._limits]:
            known = ", ".join(self._limits)
            raise LookupError(f"the source {unknown[0]!r} is none of its kind's sources: {known}")
        anew = {
            source: self._best_length(source, context)
            for source in sources
            if source not in self._chosen or self._stands[source] >= REPICK
        }
        lengths = {source: (anew if source in anew else self._chosen)[source] for source in sources}
        best = sources[0]
        if len(sources) > 1:
            best = max(sources, key=lambda source: self._rate(source, lengths[source], context))
        length = lengths[best]
        probe = length == 0 and self.longest > 0 and self._plain >= self._patience(best, context)
        return Pick(best, 1 if probe else length, anew)

    def observe(self, source: str, drafted: int, accepted: int, pick: Pick | None = None) -> None:
        if pick:
            self._follow(pick)
        for other in self._chosen:
            self._stands[other] += 1
            if other != source:  # what was not tried for long is slowly forgotten
                self._acceptance[other].fade(OTHER_DECAY)
        if not drafted:
            self._plain += 1
            return
        self._plain = 0
        self._acceptance[source].update(drafted, accepted)
        if self._chosen.get(source) == 0:
            # A probe: decide at once, and after a success look again in the next round.
            self._stands[source] = REPICK
            self._plain = PROBE_EVERY[1] if accepted else 0

    def _follow(self, pick: Pick) -> None:
        self._chosen.update(pick.anew)
        self._stands.update(dict.fromkeys(pick.anew, 0))
        self.state = "drafting" if self._chosen[pick.source] else "parked"

    def _patience(self, source: str, context: int) -> float:
        """Plain tokens that pay for one probe."""
        plain = self._costs.round(source, 0, context)
        lost = self._costs.round(source, 1, context) - plain
        low, high = PROBE_EVERY
        return min(max(lost / (PROBE_SHARE * plain), low), high)

    def _rate(self, source: str, length: int, context: int) -> float:
        """Expected tokens a second of rounds of one length."""
        expected = self._acceptance[source].expected(length)
        return expected[length] / self._costs.round(source, length, context)

    def _best_length(self, source: str, context: int) -> int:
        expected = self._acceptance[source].expected(self._limits[source])
        rates = [
            tokens / self._costs.round(source, length, context)
            for length, tokens in enumerate(expected)
        ]
        best = max(range(len(rates)), key=rates.__getitem__)
        # Lengths that are as good as equal must not take turns; a drafter that loses is parked
        # without delay, and has to promise a gain to come back.
        current = self._chosen.get(source, 0)
        return best if not best or rates[best] > rates[current] * HYSTERESIS else current
