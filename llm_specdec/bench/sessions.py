"""The real engine behind a bench: a session a configuration, the target's weights shared."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llm_specdec import receipts, settings
from llm_specdec.backends.setup import Setup, effective, load, sampling
from llm_specdec.pairings.registry import Pairing
from llm_specdec.prompting import chat

if TYPE_CHECKING:
    from llm_specdec.engine.session import Session
    from llm_specdec.prefix_cache.lookup import PrefixCache

LENGTHS = (1, 2, 4, 8, "auto")  # draft lengths that `--lanes` tries
GREEDY = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty", "penalty_scope",
             "logit_bias")  # fmt: skip
DRAFTER = ("kind", "drafter", "drafter_bits", "drafter_group_size")  # of a pairing


@dataclass(frozen=True)
class Config:
    """One side of a comparison, under the name it has in tables."""

    name: str
    setup: Setup

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pairing": self.setup.pairing.name,
            "profile": self.setup.profile,
            "kind": self.setup.lane.kind,
            "draft_tokens": self.setup.values["draft_tokens"],
            "settings": effective(self.setup.values),
            "deviations": list(self.setup.resolution.deviations),
        }


def config(name: str, pairing: Pairing, profile: str | None, **options: Any) -> Config:
    """A configuration with settings resolved as for a prompt. A disabled pairing drafts here:
    the bench decides whether it may elsewhere."""
    resolution = settings.resolve(pairing, profile, options={"draft": True, **options})
    return Config(name, Setup(replace(pairing, enabled=True), profile, resolution))


def alone(pairing: Pairing, profile: str | None) -> Config:
    """The pairing's target without its drafter: the baseline `none`."""
    return config("none", pairing, profile, draft=False)


def changes(a: Config, b: Config) -> list[str]:
    """What differs between two configurations of one target: the drafter, which brings its
    draft length, and each setting that a bench's runs go by."""
    names = [*GREEDY, *PENALTIES, "kv_bits"]
    one, two = a.setup.pairing, b.setup.pairing
    drafters = any(getattr(one, name) != getattr(two, name) for name in DRAFTER)
    if not drafters:
        names.append("draft_tokens")
    differing = [name for name in names if a.setup.values[name] != b.setup.values[name]]
    return ["drafter"] * drafters + differing


def lanes(pairings: Sequence[Pairing], profile: str | None) -> list[Config]:
    """The target alone, lookup, and the drafter of each of `pairings` (they share the target),
    at several draft lengths. The first gives the settings."""
    first = pairings[0]
    drafted = {"lookup": replace(first, kind="lookup", drafter="lookup")} | {
        pairing.name: replace(
            first,
            kind=pairing.kind,
            drafter=pairing.drafter,
            drafter_bits=pairing.drafter_bits,
            drafter_group_size=pairing.drafter_group_size,
            head=pairing.head,
        )
        for pairing in pairings
        if pairing.kind not in ("none", "lookup")
    }
    return [alone(first, profile)] + [
        config(f"{name}:{length}", pairing, profile, draft_tokens=length)
        for name, pairing in drafted.items()
        for length in LENGTHS
    ]


class Sessions:
    """`runs.Engine` over loaded weights; `keeps` the states of cold runs for warm ones.
    Raises SpecdecError where one cannot be loaded."""

    def __init__(self, configs: Sequence[Config], max_tokens: int, keeps: bool = False) -> None:
        self._setups = {config.name: config.setup for config in configs}
        self._max_tokens = max_tokens
        self._baseline = configs[0].name
        self._keeps = keeps
        self._kept: dict[str, PrefixCache] = {}  # by configuration, of its last cold run
        self._loaded = {name: _load(setup, max_tokens) for name, setup in self._setups.items()}

    @property
    def dtype(self) -> str:
        return self._session(self._baseline).dtype

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        native: int = self._session(self._baseline).target.context
        return self._setups[self._baseline].context(native)

    def encode(self, text: str) -> list[int]:
        """A user message as prompt tokens, through the target's chat template."""
        values = self._setups[self._baseline].values
        messages = [{"role": "user", "content": text}]
        if values["system"] not in ("allow", "forbid"):
            messages.insert(0, {"role": "system", "content": values["system"]})
        tokenizer = self._session(self._baseline).tokenizer
        return chat.render(tokenizer, messages, values).tokens

    def greedy(self, config: str, prompt: Sequence[int]) -> list[int]:
        values = self._setups[config].values | GREEDY | self._penalties()
        return list(self._run(config, prompt, values, seed=0).completion_ids)

    def timed(self, config: str, prompt: Sequence[int], number: int, warm: bool) -> receipts.Run:
        values = self._setups[config].values
        if not self._keeps:
            return self._run(config, prompt, values, number)
        if not warm:
            self._kept[config] = _nothing_kept()
        return self._run(config, prompt, values, number, self._kept[config], put=not warm)

    def gap(self, prompt: Sequence[int], completion: Sequence[int]) -> float:
        values = self._setups[self._baseline].values | GREEDY | self._penalties()
        session = self._session(self._baseline)
        return session.top_two_gap(prompt, completion, sampling(values), values["kv_bits"])

    def _session(self, config: str) -> "Session":
        return self._loaded[config][0]

    def _penalties(self) -> dict[str, Any]:
        """Penalties of the parity runs: the configurations' own where they agree, else none."""
        own = [{name: setup.values[name] for name in PENALTIES} for setup in self._setups.values()]
        if all(found == own[0] for found in own):
            return own[0]
        return {name: settings.SETTINGS[name].default for name in PENALTIES}

    def _run(
        self,
        config: str,
        prompt: Sequence[int],
        values: Mapping[str, Any],
        seed: int,
        prefix_cache: "PrefixCache | None" = None,
        put: bool = False,
    ) -> receipts.Run:
        """One run, from what `prefix_cache` has of the prompt; `put`: what it kept goes there."""
        from llm_specdec.engine.phases import PhaseTimer
        from llm_specdec.engine.request import Request

        setup, (session, load_ms) = self._setups[config], self._loaded[config]
        setup.admit(setup.weights(), len(prompt) + self._max_tokens)
        costs = setup.costs(session)
        session.forget()
        request = Request(
            prompt=prompt,
            max_tokens=self._max_tokens,
            eos=frozenset(session.tokenizer.eos_token_ids),
            sampling=sampling(values),
            seed=seed,
        )
        timer = PhaseTimer()
        run = session.run(
            request,
            timer,
            draft_tokens=values["draft_tokens"],
            kv_bits=values["kv_bits"],
            costs=costs,
            prefix_cache=prefix_cache,
        )
        for _ in run.tokens():
            pass
        if prefix_cache and put:
            prefix_cache.keep(run.entries())
        return setup.measured(run, timer, request, load_ms)


def _load(setup: Setup, tokens: int) -> tuple["Session", float]:
    """Weights that fit beside those already there, and the milliseconds they took to load."""
    start = time.perf_counter()
    weights = setup.weights()
    setup.admit(weights, tokens)
    return load(weights), 1000 * (time.perf_counter() - start)


def _nothing_kept() -> "PrefixCache":
    """A prefix cache of one configuration's run of one prompt, as large as it must be."""
    from llm_specdec.prefix_cache.keys import Key
    from llm_specdec.prefix_cache.lookup import PrefixCache
    from llm_specdec.prefix_cache.ram import RamTier

    return PrefixCache(Key({}), RamTier(sys.maxsize))
