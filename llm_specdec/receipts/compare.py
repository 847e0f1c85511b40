"""Like with like: which rates of two runs may be set against each other, and which may not.

A decode rate leaves prefill out, an end-to-end rate counts it. Set one against the other and a
gain looks like a loss. So each figure is compared with its own kind only, and only where
nothing but the pairing or its settings changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIGURES = {"decode": "decode_tps", "end-to-end": "end_to_end_tps"}
SAME_SHAPE = 0.05  # prompts whose lengths differ by more are not of one shape


@dataclass(frozen=True)
class Side:
    """One of two runs. `target` names the target model, `prompt` and `machine` identify what
    they are compared by; None where the log does not know."""

    label: str
    model: str
    specdec: Mapping[str, Any]
    target: str | None = None
    prompt: str | None = None
    machine: str | None = None

    @property
    def warm(self) -> bool:
        return bool(self.specdec["tokens"]["cached"])

    @property
    def served(self) -> bool:
        return "engine" in self.specdec

    def rate(self, figure: str) -> float | None:
        rate: float | None = self.specdec["rates"][FIGURES[figure]]
        return rate

    def as_json(self) -> dict[str, Any]:
        tokens = self.specdec["tokens"]
        return {
            "id": self.label,
            "model": self.model,
            "lane": self.specdec["lane"]["kind"],
            "warm": self.warm,
            "prompt_tokens": tokens["prompt"],
            "completion_tokens": tokens["completion"],
            "ttft_ms": self.specdec["ttft_ms"],
            **{FIGURES[figure]: self.rate(figure) for figure in FIGURES},
        }


def compare(
    a: Side, b: Side, figure_a: str | None = None, figure_b: str | None = None
) -> dict[str, Any]:
    """What B gains over A: `{a, b, compared: [{figure, a, b, gain_pct}], refused: [{figure,
    reason}], notes: [..]}`. `figure_a` and `figure_b` ask for one figure of each run ("decode"
    or "end-to-end"); where only one is given it holds for both."""
    figure_a, figure_b = figure_a or figure_b, figure_b or figure_a
    compared: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    if figure_a != figure_b:
        refused.append({"figure": f"{figure_a} with {figure_b}", "reason": _crossed(figure_a)})
    for figure in FIGURES if figure_a is None else {figure_a} & {figure_b}:
        reason = unlike(a, b) or _unfit(a, b, figure)
        if reason:
            refused.append({"figure": figure, "reason": reason})
        else:
            compared.append(_gain(figure, a.rate(figure), b.rate(figure)))
    return {
        "a": a.as_json(),
        "b": b.as_json(),
        "compared": compared,
        "refused": refused,
        "notes": _notes(a, b) if compared else [],
    }


def unlike(a: Side, b: Side) -> str | None:
    """Why no figure of these runs may be compared; None where some may."""
    if a.served != b.served:
        return (
            f"{(a if a.served else b).label} was served: its rates count the network and the "
            "server's queue, those of a run on this machine do not"
        )
    pairings = a.specdec["pairing"], b.specdec["pairing"]
    if pairings[0] != pairings[1] and (a.target is None or b.target is None):
        return f"it is not known whether {pairings[0]} and {pairings[1]} have the same target"
    if a.target != b.target:
        return f"the targets differ ({a.target}, {b.target}): another model, another speed"
    if a.machine != b.machine:
        return f"the machines differ ({a.machine}, {b.machine})"
    lengths = a.specdec["tokens"]["prompt"], b.specdec["tokens"]["prompt"]
    if None in lengths:
        return "the server did not tell how long the prompt was"
    if abs(lengths[0] - lengths[1]) > SAME_SHAPE * max(lengths):
        return (
            f"the prompts differ in shape ({lengths[0]} and {lengths[1]} tokens): "
            "prefill and decoding cost more on a longer one"
        )
    return None


def _unfit(a: Side, b: Side, figure: str) -> str | None:
    """Why this one figure of two otherwise comparable runs may not be compared."""
    missing = [side.label for side in (a, b) if not side.rate(figure)]
    if missing:
        return f"{' and '.join(missing)} has no {figure} rate (too few tokens)"
    if figure == "decode" and (a.warm or b.warm):
        which = "both runs are" if a.warm and b.warm else f"{(a if a.warm else b).label} is"
        return f"{which} warm (prompt tokens from the cache): warm runs compare end-to-end only"
    return None


def _crossed(figure_a: str | None) -> str:
    first = "A counts prefill and B" if figure_a == "end-to-end" else "B counts prefill and A"
    return (
        f"{first} does not: an end-to-end rate against a decode rate says nothing about speed. "
        "Compare decode with decode, or end-to-end with end-to-end"
    )


def _gain(figure: str, a: float | None, b: float | None) -> dict[str, Any]:
    assert a and b  # _unfit has seen to it
    return {"figure": figure, "a": a, "b": b, "gain_pct": round(100 * (b / a - 1), 2)}


def _notes(a: Side, b: Side) -> list[str]:
    notes = []
    if a.prompt != b.prompt:
        notes.append("the prompts differ in text: acceptance depends on what is written")
    changes = _changes(a, b)
    if len(changes) > 1:
        notes.append(f"more than one thing changed ({', '.join(changes)}): the gain is of all")
    notes += [
        f"{side.label} was interrupted"
        for side in (a, b)
        if side.specdec["finish_reason"] == "interrupted"
    ]
    if a.warm != b.warm:
        notes.append("one run is cold, one warm: end-to-end shows what the cache saved as well")
    cached = [side.specdec["tokens"]["cached"] for side in (a, b)]
    if all(cached) and cached[0] != cached[1]:
        notes.append(
            f"one run found {cached[0]} prompt tokens in the cache, one {cached[1]}: "
            "end-to-end shows what the cache saved as well"
        )
    return notes


def _changes(a: Side, b: Side) -> list[str]:
    """Names of what differs: the lane, which includes its draft length, and other settings."""
    lane = a.specdec["lane"]["kind"] != b.specdec["lane"]["kind"]
    ignored = {"seed", "draft", "prefix_cache"} | ({"draft_tokens"} if lane else set())
    ours, theirs = a.specdec["sampling"], b.specdec["sampling"]
    names = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    return (["lane"] if lane else []) + sorted(names - ignored)
