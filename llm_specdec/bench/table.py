"""A bench as text: for the terminal, and as Markdown for a README."""

from collections.abc import Iterator, Mapping
from typing import Any

from llm_specdec.bench.machine import identity

Row = Mapping[str, Any]
ALONE = {"none": "target alone"}  # a configuration's name → what people read


def named(config: str) -> str:
    return ALONE.get(config, config)


def text(bench: Row) -> str:
    """At most 80 columns, a block a configuration."""
    return "\n".join(_text(bench))


def markdown(bench: Row) -> str:
    """A table a case, the verdict, and what is needed to repeat it."""
    return "\n".join(_markdown(bench))


def conditions(bench: Row) -> list[tuple[str, str]]:
    """What was asked, on what machine, in what state: (name, value) for people."""
    found = bench["conditions"]
    machine, state, versions = found["machine"], found["state"], found["versions"]
    rows = [
        ("bench", f"{bench['id']}, {bench['datetime_utc']}, {bench['mode']}"),
        ("machine", f"{identity(machine)}, {machine['system']}"),
        ("load", f"{state['load_1min']} before the bench{_others(bench)}"),
        ("memory", f"{state['memory_available_bytes'] / 2**30:.1f} GiB available, pressure "
                   f"{state['memory_pressure'] or 'unknown'}"),
        ("power", state["power"] or "unknown"),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
        ("rules", rules(bench)),
    ]  # fmt: skip
    rows += [(role, f"{model['name']}, {_which(model)}") for role, model in found["models"].items()]
    rows += [
        (f"large process {number}", f"{p['name']}, {p['resident_bytes'] / 2**30:.1f} GiB")
        for number, p in enumerate(state["large_processes"], 1)
    ]
    return rows


def _which(model: Row) -> str:
    return (
        f"fingerprint {model['fingerprint'][:12]}"
        if model["fingerprint"]
        else model["architecture"]
    )


def _others(bench: Row) -> str:
    share = (bench["verdict"] or {}).get("others_share")
    return "" if share is None else f", other processes used {share:.0%} of the cores meanwhile"


def rules(bench: Row) -> str:
    """How it ran, in one line."""
    found = bench["conditions"]
    return (
        f"{found['runs']} run{'s' * (found['runs'] != 1)} each, interleaved, concurrency 1, "
        f"streaming, at most {found['max_tokens']} new tokens"
    )


def verdict(bench: Row) -> str:
    """The verdict in one line."""
    found = bench["verdict"]
    if found is None:
        return "no verdict: the bench was stopped before its end"
    if found["status"] == "recommended":
        gain = found["gains"].get(found["config"])
        why = f": {gain:+.1f}% decode, median over the cases" if gain else ": no lane gains here"
        lane = "the target alone" if found["config"] == "none" else found["config"]
        return "; ".join([f"use {lane}{why}", *found["reasons"]])
    gains = ", ".join(
        f"{row['gain_pct']:+.1f}% at {row['context']} tokens"
        for row in found.get("gains", [])
        if row["gain_pct"] is not None
    )
    if found["status"] == "adopted":
        doubts = f"; but {'; '.join(found['reasons'])}" if found["reasons"] else ""
        return f"adopted: {gains}; the gate is {found['gate_pct']:g}%{doubts}"
    if found["status"] == "measured":
        return f"measured, not judged: {'; '.join(found['reasons']) or gains}"
    return f"{found['status']}: {'; '.join(found['reasons'])}"


def parity(row: Row) -> str:
    """A configuration's greedy output against the baseline's, in words."""
    found = row["parity"]
    if found is None:
        return ""
    if found["status"] == "identical":
        return f"parity identical (SHA-256 {found['sha256_a'][:12]})"
    if found["status"] == "differs":
        return f"parity: the texts differ at character {found['position']}"
    word = "tie by width" if found["status"] == "tie" else found["status"]
    return f"parity {word}: position {found['position']}, top-2 gap {found['gap']:.2g}"


def gain(row: Row, rate: str = "decode_tps") -> str:
    """A gain of medians, its spread, and whether the spread swallows it."""
    found = (row["gain"] or {}).get(rate)
    if not found:
        return ""
    note = ", the spread swallows it" if found["swallowed"] else ""
    return (
        f"{found['median_pct']:+.1f}% (means {found['mean_pct']:+.1f}%, "
        f"runs {found['low_pct']:+.1f}% to {found['high_pct']:+.1f}%{note})"
    )


def acceptance(row: Row) -> str:
    if row["acceptance_rate"] is None:
        return ""
    length = row["mean_acceptance_length"]
    mean = "" if length is None else f", mean acceptance length {length:.2f}"
    return f"{100 * row['acceptance_rate']:.1f}% of drafted{mean}"


def phases(row: Row) -> str:
    """Shares of wall time that round to 1% and more."""
    shown = [(name, 100 * share) for name, share in row["phases_share"].items()]
    return " ".join(f"{name} {share:.0f}%" for name, share in shown if share >= 0.5)


def listed(rate: Row | None) -> str:
    """[every run] mean median."""
    if rate is None:
        return "–"
    runs = ", ".join("–" if run is None else f"{run:.1f}" for run in rate["runs"])
    return f"[{runs}] mean {rate['mean']:.1f}, median {rate['median']:.1f}"


def seconds(rate: Row | None) -> str:
    """A time in milliseconds as its median in seconds."""
    return "–" if rate is None else f"{rate['median'] / 1000:.2f} s"


def title(bench: Row) -> str:
    profile = f"/{bench['profile']}" if bench["profile"] else ""
    against = "the target alone" if bench["against"] == "none" else bench["against"]
    against = "all lanes" if bench["mode"] == "lanes" else f"against {against}"
    warm = ", warm" if bench["mode"] == "warm" else ""
    partial = ", partial" if bench["partial"] else ""
    return f"{bench['pairing']}{profile} {against}{warm}{partial}"


def heading(case: Row) -> str:
    about = "" if case.get("counted", True) else "about "
    return f"{case['text']}, {about}{case['prompt_tokens']} prompt tokens"


def _text(bench: Row) -> Iterator[str]:
    yield title(bench)
    yield rules(bench)
    for case in bench["cases"]:
        yield ""
        yield heading(case)
        for row in case["configs"]:
            yield from _block(row)
    yield ""
    yield from servers(bench)
    yield verdict(bench)


def servers(bench: Row) -> Iterator[str]:
    """What each server counted while the bench ran."""
    for one in (bench["verdict"] or {}).get("servers", []):
        counted = ", ".join(f"{name} {count}" for name, count in one["counters"].items())
        others = f"; {one['foreign_tokens']} written for others" * bool(one["foreign_tokens"])
        yield f"server of {' and '.join(one['configs'])}: {counted}{others}"


def _block(row: Row) -> Iterator[str]:
    yield f"  {named(row['config'])}"
    for name, value in _lines(row):
        if value:
            yield f"    {name:<12}{value}"


def _lines(row: Row) -> Iterator[tuple[str, str]]:
    if row["decode_tps"]:
        yield "decode", f"{listed(row['decode_tps'])} tok/s"
        yield "gain", gain(row)
    yield "end-to-end", f"{listed(row['end_to_end_tps'])} tok/s"
    if not row["decode_tps"]:
        yield "gain", gain(row, "end_to_end_tps")
    yield from _ttft(row)
    yield "acceptance", acceptance(row)
    yield "lane", "parked at the end of a run" if "parked" in row["lane_states"] else ""
    yield "phases", phases(row)
    loops = row["longest_repeated_6gram"]
    yield "loops", f"most frequent 6-gram {loops}×" if loops else ""
    yield "", parity(row)


def _ttft(row: Row) -> Iterator[tuple[str, str]]:
    """The median; of warm runs every one, and the cold run's beside them."""
    warm, cold = row["ttft_ms"], row.get("cold_ttft_ms")
    if not warm or not cold:
        yield "TTFT", seconds(warm)
        return
    yield "TTFT", f"{listed(warm)} ms"
    share = warm["median"] / cold["median"]
    yield "cold TTFT", f"{cold['median']:.1f} ms, warm is {share:.3f} of it"


def _markdown(bench: Row) -> Iterator[str]:
    yield f"**{title(bench)}**: {verdict(bench)}"
    for case in bench["cases"]:
        yield ""
        yield heading(case)
        yield ""
        yield "| | decode tok/s | end-to-end tok/s | TTFT | acceptance | gain |"
        yield "|---|---|---|---|---|---|"
        for row in case["configs"]:
            rate = "decode_tps" if row["decode_tps"] else "end_to_end_tps"
            cells = (
                named(row["config"]),
                listed(row["decode_tps"]),
                listed(row["end_to_end_tps"]),
                "; cold ".join(value for _, value in _ttft(row)),
                acceptance(row),
                gain(row, rate),
            )
            yield f"| {' | '.join(cells)} |"
    yield ""
    for name, value in conditions(bench):
        yield f"- {name}: {value}"
