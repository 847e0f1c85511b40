"""The real engine behind a bench: a session a configuration, the target's weights shared."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llm_specdec import receipts, settings
from llm_specdec.backends import Plan, Request, Result, lane_of, plan
from llm_specdec.backends.notices import shown
from llm_specdec.backends.planning import effective
from llm_specdec.bench.rules import Difference
from llm_specdec.bench.runs import Greedy
from llm_specdec.drafters.table import KINDS, NONE
from llm_specdec.pairings.registry import Pairing
from llm_specdec.prompting import chat

if TYPE_CHECKING:
    from llm_specdec.backends.local import Loaded
    from llm_specdec.prefix_cache.lookup import PrefixCache

LENGTHS = (1, 2, 4, 8, "auto")  # draft lengths that `--lanes` tries
GREEDY = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty", "penalty_scope",
             "logit_bias")  # fmt: skip
DRAFTER = ("kind", "drafter", "drafter_bits", "drafter_group_size")  # of a pairing


@dataclass(frozen=True)
class Configuration:
    """One side of a comparison, under the name it has in tables."""

    name: str
    pairing: Pairing
    profile: str | None
    resolution: settings.Resolution

    @property
    def values(self) -> dict[str, Any]:
        return self.resolution.values

    @property
    def lane(self) -> receipts.Lane:
        return lane_of(self.pairing, self.resolution)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pairing": self.pairing.name,
            "profile": self.profile,
            "kind": self.lane.kind,
            "draft_tokens": self.values["draft_tokens"],
            "settings": effective(self.values),
            "deviations": list(self.resolution.deviations),
        }


def config(name: str, pairing: Pairing, profile: str | None, **options: Any) -> Configuration:
    """A configuration with settings resolved as for a prompt. A disabled pairing drafts here:
    the bench decides whether it may elsewhere."""
    resolution = settings.resolve(pairing, profile, options={"draft": True, **options})
    return Configuration(name, replace(pairing, enabled=True), profile, resolution)


def alone(pairing: Pairing, profile: str | None) -> Configuration:
    """The pairing's target without its drafter: the baseline `none`."""
    return config("none", pairing, profile, draft=False)


def changes(a: Configuration, b: Configuration) -> list[str]:
    """What differs between two configurations of one target: the drafter, which brings its
    draft length, and each setting that a bench's runs go by."""
    names = [*GREEDY, *PENALTIES, "kv_bits"]
    one, two = a.pairing, b.pairing
    drafters = any(getattr(one, name) != getattr(two, name) for name in DRAFTER)
    if not drafters:
        names.append("draft_tokens")
    differing = [name for name in names if a.values[name] != b.values[name]]
    return ["drafter"] * drafters + differing


def lanes(pairings: Sequence[Pairing], profile: str | None) -> list[Configuration]:
    """The target alone, lookup, and the drafter of each of `pairings` (they share the target),
    at several draft lengths. The first gives the settings."""
    first = pairings[0]
    weightless = [kind for kind in KINDS.values() if kind.is_word and not kind.has_weights]
    drafted = {
        kind.name: replace(first, kind=kind.name, drafter=kind.name)
        for kind in weightless
        if kind is not NONE
    } | {
        pairing.name: replace(
            first,
            kind=pairing.kind,
            drafter=pairing.drafter,
            drafter_bits=pairing.drafter_bits,
            drafter_group_size=pairing.drafter_group_size,
            head=pairing.head,
        )
        for pairing in pairings
        if KINDS[pairing.kind].has_weights
    }
    return [alone(first, profile)] + [
        config(f"{name}:{length}", pairing, profile, draft_tokens=length)
        for name, pairing in drafted.items()
        for length in LENGTHS
    ]


def messages(values: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    """A prompt as a user asks it, after the system prompt that is set."""
    asked = [{"role": "user", "content": text}]
    if values["system"] in ("allow", "forbid"):
        return asked
    return [{"role": "system", "content": values["system"]}, *asked]


class Sessions:
    """`runs.Runner` over loaded weights; `keeps` the states of cold runs for warm ones.
    Raises SpecdecError where one cannot be loaded."""

    counts = True  # a prompt's tokens, exactly

    def __init__(
        self, configs: Sequence[Configuration], max_tokens: int, keeps: bool = False
    ) -> None:
        self._max_tokens, self._keeps = max_tokens, keeps
        self._baseline = configs[0].name
        self._plans = {c.name: plan(c.pairing, c.profile, c.resolution) for c in configs}
        self._kept: dict[str, PrefixCache] = {}  # by configuration, of its last cold run
        self._loaded: dict[str, Loaded] = {}
        self._load_ms: dict[str, float] = {}
        for name in self._plans:
            self._load(name)

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        positions = self._loaded[self._baseline].session.target.positions
        return self._plans[self._baseline].context(positions)

    def count(self, text: str) -> int:
        """Tokens of a prompt."""
        return len(self.prompt(text))

    def prompt(self, text: str) -> list[int]:
        """A user message as prompt tokens, through the target's chat template."""
        values = self._plans[self._baseline].settings
        tokenizer = self._loaded[self._baseline].session.tokenizer
        return chat.render(tokenizer, messages(values, text), values).tokens

    def greedy(self, config: str, prompt: Sequence[int]) -> Greedy:
        result = self._run(config, prompt, self._greedy(config))
        return Greedy(result, result.completion_ids)

    def timed(self, config: str, prompt: Sequence[int], number: int, warm: bool) -> Result:
        plan = replace(self._plans[config], seed=number)
        if not self._keeps:
            return self._run(config, prompt, plan)
        if not warm:
            self._kept[config] = _nothing_kept()
        return self._run(config, prompt, plan, self._kept[config], keep=not warm)

    def difference(self, prompt: Sequence[int], one: Greedy, other: Greedy) -> Difference | None:
        from llm_specdec.backends import local

        session, greedy = self._loaded[self._baseline].session, self._greedy(self._baseline)
        return local.difference(session, greedy, prompt, one.result, other.result)

    def _greedy(self, config: str) -> Plan:
        plan = self._plans[config]
        return replace(plan, settings={**plan.settings, **GREEDY, **self._penalties()}, seed=0)

    def _penalties(self) -> dict[str, Any]:
        """Penalties of the parity runs: the configurations' own where they agree, else none."""
        own = [{name: plan.settings[name] for name in PENALTIES} for plan in self._plans.values()]
        if all(found == own[0] for found in own):
            return own[0]
        return {name: settings.SETTINGS[name].default for name in PENALTIES}

    def _load(self, config: str) -> None:
        """Weights that fit beside those already there, the milliseconds they took to load, and
        what their rounds cost."""
        from llm_specdec.backends import local

        plan, start = self._plans[config], time.perf_counter()
        local.admit(plan, self._max_tokens)
        session = shown(local.load(plan))
        self._load_ms[config] = 1000 * (time.perf_counter() - start)
        costs = shown(local.round_costs(plan, session, waits=True), tell=lambda text: None)
        self._loaded[config] = local.Loaded(session, costs)

    def _run(
        self,
        config: str,
        prompt: Sequence[int],
        plan: Plan,
        prefix_cache: "PrefixCache | None" = None,
        keep: bool = False,
    ) -> Result:
        """One run, from what `prefix_cache` has of the prompt; `keep`: what it leaves goes
        there."""
        from llm_specdec.backends import local

        loaded = replace(self._loaded[config], prefix_cache=prefix_cache)
        local.admit(plan, len(prompt) + self._max_tokens)
        loaded.session.forget()
        request = Request(tokens=prompt, max_tokens=self._max_tokens)
        events = local.decode(loaded, plan, request)
        result = next(event for event in events if isinstance(event, Result))
        if keep:
            list(events)
        load = {"load": self._load_ms[config]}
        return replace(result, phases_ms={**result.phases_ms, **load})


def _nothing_kept() -> "PrefixCache":
    """A prefix cache of one configuration's run of one prompt, as large as it must be."""
    from llm_specdec.prefix_cache.keys import Key
    from llm_specdec.prefix_cache.lookup import PrefixCache
    from llm_specdec.prefix_cache.ram import RamTier

    return PrefixCache(Key({}), RamTier(sys.maxsize))
