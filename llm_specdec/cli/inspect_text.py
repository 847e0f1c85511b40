"""What `llm specdec inspect` knows, in lines of at most 80 columns."""

import textwrap
from collections import Counter
from itertools import groupby
from typing import Any

from llm_specdec.checkpoint import TARGET
from llm_specdec.cli.output import WIDTH
from llm_specdec.console.sizes import gigabytes
from llm_specdec.console.text import one_line
from llm_specdec.drafters.table import KINDS, of_files


def lines(data: dict[str, Any]) -> list[str]:
    """data: as `inspect.report` gives it."""
    found = _described(data["target"], data.get("memory", {}).get("context"))
    if "memory" in data:
        found += _memory_lines(data["memory"])
    if data["target"]["helper"]:
        found.append(_row("use", of_files(data["target"]["kind"]).usage))
    elif data["lane"]:
        found.append(_row("lane", f"{data['lane']['kind']}: {data['lane']['reason']}"))
    if "drafter" in data:
        found += ["", *_described(data["drafter"])]
        match = data["drafter"]["match"]
        found.append(_row("match", "yes" if match else "no"))
    if cost := data["draft_cost"]:
        tokens = cost["tokens_per_pass"]
        found.append(
            _row(
                "draft cost",
                f"a pass reads {cost['share']:.1%} of a target pass and drafts "
                f"{'one token' if tokens == 1 else f'{tokens} tokens'}",
            )
        )
    if not data["target"]["helper"] or "drafter" in data:  # a drafter by itself is no problem
        found += [f"problem: {problem}" for problem in data["problems"]]
    found += [f"warning: {warning}" for warning in data["warnings"]]
    return [part for line in found for part in _wrapped(line)]


def _row(label: str, value: str) -> str:
    return f"  {label:<13} {value}"


def _wrapped(line: str) -> list[str]:
    line = one_line(line)  # names come from strangers
    indent = " " * (16 if line.startswith("  ") else 2)
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _described(found: dict[str, Any], configured: int | None = None) -> list[str]:
    rows = _of_drafter(found) if found["helper"] else _of_target(found, configured)
    notes = [_row("note", note) for note in found["notes"]]
    return [found["name"], *(_row(*row) for row in rows.items()), *notes]


def _of_target(found: dict[str, Any], configured: int | None) -> dict[str, str]:
    return {
        "kind": of_files(found["kind"]).files_words,
        "architecture": _architecture(found),
        "parameters": f"{_count(found['parameters'])}, {found['dtype']}",
        "quantised": _quantised(found["quantisation"]),
        **{label: said for each in KINDS.values() for label, said in each.rows(found).items()},
        "caches": _caches(found["caches"]),
        "tokenizer": _tokenizer(found["tokenizer"]),
        "context": _context(found, configured),
        "weights": gigabytes(found["weight_bytes"]),
        "KV per token": _kv(found["kv_bytes_per_token"]),
    }


def _of_drafter(found: dict[str, Any]) -> dict[str, str]:
    """Caches and context follow from the target that it runs beside."""
    kind = of_files(found["kind"])
    rows = {"kind": kind.files_words}
    if found["made_for"]:
        rows["made for"] = found["made_for"]
    if kind.config_of_target:
        return {**rows, "quantised": _quantised(found["quantisation"]), **kind.rows(found)}
    return {
        **rows,
        "architecture": _architecture(found),
        "parameters": f"{_count(found['parameters'])}, {found['dtype']}",
        "quantised": _quantised(found["quantisation"]),
        **kind.rows(found),
        "tokenizer": _tokenizer(found["tokenizer"]),
        "weights": gigabytes(found["weight_bytes"]),
    }


def _context(found: dict[str, Any], configured: int | None) -> str:
    native = found["native_context"]
    said = f"{native:,} native" if native else "unknown"
    if found["context_is_hard"]:
        said += ", and no position beyond"
    return f"{said}, {configured:,} configured" if configured not in (None, native) else said


def _architecture(found: dict[str, Any]) -> str:
    name = found["architecture"] or "unnamed"
    code = ", needs its own code" if found["own_code"] else ""
    known = "" if found["runnable"] or found["kind"] != TARGET else ", unknown to mlx-lm"
    model_type = f" ({found['model_type']}{known}{code})" if found["model_type"] else ""
    layers = f"{found['layers']} layer{'s' * (found['layers'] != 1)}"
    return f"{name}{model_type}, {layers}, hidden {found['hidden_size']}"


def _count(parameters: int) -> str:
    if parameters < 100_000:
        return f"{parameters:,}"
    return f"{parameters / 1e9:.2f} B" if parameters >= 1e9 else f"{parameters / 1e6:.1f} M"


def _quantised(found: dict[str, Any] | None) -> str:
    if found is None:
        return "no"
    base = f"{found['bits']} bits, group {found['group_size']}, {found['method']}"
    if len(found["mixed"]) > 1:
        parts = [f"{m['matrices']} × {m['bits']} bits/{m['group_size']}" for m in found["mixed"]]
        base += f"; mixed: {', '.join(parts)}"
    if found["config_bits"]:
        base += f"; the config says {found['config_bits']}"
    return base


def _caches(caches: list[dict[str, Any]] | None) -> str:
    if caches is None:
        return "unknown here, decided when loaded"
    labels = [f"sliding {c['window']}" if c["window"] else c["kind"] for c in caches]
    if len({*labels}) == 1:
        return f"{len(labels)} × {labels[0]}"
    counts = ", ".join(f"{n} × {label}" for label, n in Counter(labels).items())
    first = [f"{len(list(run))} {label}" for label, run in groupby(labels)][:2]
    return f"{counts} ({', '.join(first)}, …)"


def _tokenizer(found: dict[str, Any] | None) -> str:
    if found is None:
        return "the target's"
    parts = [f"{found['type']}, {found['vocabulary']:,} entries"]
    if eos := found["special_ids"].get("eos"):
        parts.append(f"ends at {', '.join(map(str, eos))}")
    parts.append("chat template" if found["chat_template"] else "no chat template")
    parts += [f"thinking: {found['thinking']}"] * bool(found["thinking"])
    parts += [f"tools: {found['tools']}"] * bool(found["tools"])
    return ", ".join(parts)


def _kv(nbytes: int | None) -> str:
    if nbytes == 0:
        return "none once the windows are full"
    return "unknown" if nbytes is None else f"{nbytes:,} bytes ({nbytes / 1e6:.3f} MB)"


def _memory_lines(found: dict[str, Any]) -> list[str]:
    needs = [f"{need['tokens']:,} tokens {gigabytes(need['bytes'])}" for need in found["needs"]]
    largest = found["largest_context"]
    word = "all of it fits" if largest == found["context"] else f"up to {largest:,} tokens fit"
    limit = f"{gigabytes(found['limit_bytes'])} {found['limit']}"
    return [
        _row("memory", " · ".join(needs)),
        _row("fits", f"{word if largest else 'not even the weights fit'} ({limit})"),
    ]
