"""Two served pairings behind a bench: prompts are texts, and so is what is compared."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_specdec.backends import Plan, Request, Result, Text, execute, plan
from llm_specdec.backends.served import tokenizers
from llm_specdec.bench.runs import Greedy
from llm_specdec.bench.sessions import GREEDY, Configuration, messages
from llm_specdec.pairings.registry import Served

PIECE = 4  # characters; about a token, where no tokenizer is named
NO_LIMIT = 1 << 40
SHARE = 0.01  # of the tokens written; fewer that are not ours may be ours, cut off at a stop


@dataclass(frozen=True)
class TextDifference:
    """Where two greedy texts part, in characters. A server shows no logits, so that nothing
    tells a tie from a fault."""

    position: int
    gap: None = None
    exact: None = None


class Endpoints:
    """`runs.Runner` over servers. Every timed run has a first line of its own, which no prompt
    cache of a server knows. Raises SpecdecError."""

    def __init__(self, configs: Sequence[Configuration], max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._plans = {c.name: plan(c.pairing, c.profile, c.resolution) for c in configs}
        self._mark = secrets.token_hex(2)  # an earlier bench asked the same
        named = (plan for plan in self._plans.values() if _served(plan).tokenizer)
        self._counting = next(named, None)
        self._written = dict.fromkeys(self._addresses(), 0)
        self._before = self._counters()

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together, where a setting says so; the server
        refuses what is too long for it."""
        return min(plan.settings["context"] or NO_LIMIT for plan in self._plans.values())

    @property
    def counts(self) -> bool:
        """Whether a prompt's tokens are counted, by the first tokenizer that is named, or
        guessed from its length."""
        return self._counting is not None

    def count(self, text: str) -> int:
        """Tokens of a timed prompt."""
        if not self._counting:
            return -(-len(text) // PIECE)
        asked = Request(messages=messages(self._counting.settings, self._marked("a", 0, text)))
        return tokenizers.prompt_tokens(self._counting, asked)

    def prompt(self, text: str) -> str:
        """As `count` takes it."""
        return text

    def greedy(self, config: str, prompt: str) -> Greedy:
        given = self._plans[config]
        return self._run(replace(given, settings={**given.settings, **GREEDY}), prompt)

    def timed(self, config: str, prompt: str, number: int, warm: bool) -> Result:
        letter = "ab"[[*self._plans].index(config)]
        return self._run(self._plans[config], self._marked(letter, number, prompt)).result

    def _marked(self, letter: str, number: int, prompt: str) -> str:
        """With a first line that no other run has."""
        return f"{letter}{number + 1} {self._mark}.\n\n{prompt}"

    def difference(self, prompt: str, one: Greedy, other: Greedy) -> TextDifference | None:
        a, b = one.said, other.said
        if a == b:
            return None
        pairs = enumerate(zip(a, b, strict=False))
        return TextDifference(next((i for i, (x, y) in pairs if x != y), min(len(a), len(b))))

    def servers(self) -> list[dict[str, Any]]:
        """For each server that counts: whose it is, what it counted during the bench, and how
        many tokens of that it wrote for others."""
        from llm_specdec.backends.served.counters import WRITTEN, grown

        found = []
        for url, after in self._counters().items():
            counters = grown(self._before[url], after)
            if not counters:
                continue
            configs = [name for name, plan in self._plans.items() if _served(plan).url == url]
            others = counters.get(WRITTEN, 0) - self._written[url]
            foreign = others if others > SHARE * self._written[url] else 0
            found.append({"configs": configs, "counters": counters, "foreign_tokens": foreign})
        return found

    def _counters(self) -> dict[str, dict[str, int]]:
        from llm_specdec.backends.served import counters

        return {url: counters.read(served) for url, served in self._addresses().items()}

    def _addresses(self) -> dict[str, Served]:
        return {_served(plan).url: _served(plan) for plan in self._plans.values()}

    def _run(self, given: Plan, text: str) -> Greedy:
        request = Request(messages=messages(given.settings, text), max_tokens=self._max_tokens)
        said, result = [], None
        for event in execute(given, request, lambda: False):
            if isinstance(event, Text):
                said.append(event.text)
            elif isinstance(event, Result):
                result = event
        assert result
        if result.finish_reason == "interrupted":
            raise KeyboardInterrupt
        self._written[_served(given).url] += result.completion_tokens
        return Greedy(result, "".join(said))


def judged(verdict: Mapping[str, Any], servers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict with what the servers counted; undecided where they worked for others too."""
    doubts = [
        f"the server of {' and '.join(one['configs'])} wrote {one['foreign_tokens']} tokens that "
        "this bench did not ask for: bench again once nobody else uses it"
        for one in servers
        if one["foreign_tokens"]
    ]
    found = {**verdict, "servers": list(servers)}
    if doubts and verdict["status"] not in ("broken", "measured"):
        return {**found, "status": "undecided", "reasons": [*verdict["reasons"], *doubts]}
    return {**found, "reasons": [*verdict["reasons"], *doubts]}


def _served(given: Plan) -> Served:
    assert given.served
    return given.served
