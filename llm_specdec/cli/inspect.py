"""`llm specdec inspect`: what a checkpoint is and what it takes, before any weight is loaded."""

import textwrap
from collections import Counter
from dataclasses import asdict
from itertools import groupby
from typing import Any

import click

from llm_specdec import memory
from llm_specdec.anatomy import KIND_WORDS, Anatomy, fit, read
from llm_specdec.cli.output import print_json
from llm_specdec.sizes import gigabytes

CONTEXTS = (4096, 32768)  # tokens; the full context is added


@click.command(name="inspect", short_help="What a model is, what it needs, which drafter it takes")
@click.argument("target")
@click.argument("drafter", required=False)
@click.option(
    "--context", type=click.IntRange(min=1), help="Tokens to plan memory for; the native context"
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON")
def inspect_command(target: str, drafter: str | None, context: int | None, as_json: bool) -> None:
    """What TARGET is, what it needs in memory and which drafter it takes.

    Read from files alone: configuration, tensor names and sizes, tokenizer and template.
    With a DRAFTER: whether the two fit, and what a draft costs. Both are folders or
    repositories that were downloaded before.

    \b
    Examples:
      llm specdec inspect mlx-community/Qwen3.8-27B-4bit
      llm specdec inspect ./my-model ./my-drafter --context 16384
    """
    data = report(_read(target), _read(drafter) if drafter else None, context)
    if as_json:
        print_json(data)
    else:
        click.echo("\n".join(text(data)))


def _read(name: str) -> Anatomy:
    from llm_specdec import hub

    return read(hub.locate(name, offline=True))


def report(target: Anatomy, drafter: Anatomy | None, context: int | None) -> dict[str, Any]:
    """All that inspect knows, as plain data."""
    data: dict[str, Any] = {"target": describe(target)}
    problems = fit.target_problems(target)
    if drafter is not None:
        differences = [] if problems else fit.mismatches(target, drafter)
        data["drafter"] = {
            **describe(drafter),
            "match": not problems and not differences,
            "differences": differences,
        }
        problems = [*problems, *differences]
    cost = None if problems else fit.draft_cost(target, drafter)
    data["draft_cost"] = asdict(cost) if cost else None
    data["problems"] = problems
    data["warnings"] = [] if problems else fit.warnings(target, drafter)
    if drafter is not None and not problems and (place := fit.placement(target, drafter)):
        data["warnings"].append(place)
    if target.kind == "target":
        pair = drafter if data.get("drafter", {}).get("match") else None
        data["memory"] = _memory(target, pair, context)
        data["lane"] = None if fit.target_problems(target) else asdict(fit.recommend(target, pair))
    return data


def describe(found: Anatomy) -> dict[str, Any]:
    head, quantisation, tokenizer = found.head, found.quantisation, found.tokenizer
    return {
        "name": found.folder.name,
        "kind": found.kind,
        "helper": found.kind != "target",
        "architecture": found.architecture,
        "model_type": found.model_type,
        "runnable": found.runnable,
        "own_code": found.own_code,
        "parameters": found.parameters,
        "dtype": found.dtype,
        "quantisation": quantisation
        and {
            "bits": quantisation.bits,
            "group_size": quantisation.group_size,
            "method": quantisation.method,
            "mixed": [
                {"bits": bits, "group_size": group, "matrices": count}
                for (bits, group), count in sorted(quantisation.mixed.items())
            ],
            "config_bits": quantisation.config_bits,
        },
        "hidden_size": found.hidden_size,
        "layers": found.layers,
        "vocab_size": found.vocab_size,
        "tied_embeddings": found.tied_embeddings,
        "head": head
        and {
            "layout": head.layout,
            "layers": head.depth,
            "tensors": len(head.tensors),
            "bytes": head.nbytes,
            "files": list(head.where),
            "missing": list(head.missing),
        },
        "head_promised": found.head_promised,
        "caches": None
        if found.caches is None
        else [{"kind": layer.kind, "window": layer.window} for layer in found.caches],
        "tokenizer": tokenizer and asdict(tokenizer),
        "native_context": found.native_context,
        "weight_bytes": found.weight_bytes,
        "kv_bytes_per_token": found.kv_bytes_per_token,
        "dflash": found.dflash and asdict(found.dflash),
        "notes": list(found.notes),
    }


def _memory(target: Anatomy, drafter: Anatomy | None, context: int | None) -> dict[str, Any]:
    full = context or target.native_context or CONTEXTS[-1]
    limit = memory.budget()

    def need(tokens: int) -> memory.Need:
        return memory.estimate(target, drafter, tokens)

    lengths = sorted({n for n in CONTEXTS if n < full} | {full})
    return {
        "context": full,
        "needs": [
            {"tokens": n, "bytes": need(n).total, "fits": need(n).total <= limit.nbytes}
            for n in lengths
        ],
        "limit_bytes": limit.nbytes,
        "limit": limit.what,
        "largest_context": memory.largest_context(
            lambda tokens: need(tokens).total <= limit.nbytes, full
        ),
    }


# ---- as text ----


def text(data: dict[str, Any]) -> list[str]:
    lines = _described(data["target"], data.get("memory", {}).get("context"))
    if "memory" in data:
        lines += _memory_lines(data["memory"])
    if data["target"]["kind"] != "target":
        kind = KIND_WORDS[data["target"]["kind"]]
        lines.append(_row("lane", f"{kind}: a helper, never a target"))
    elif data["lane"]:
        lines.append(_row("lane", f"{data['lane']['kind']}: {data['lane']['reason']}"))
    if "drafter" in data:
        lines += ["", *_described(data["drafter"])]
        match = data["drafter"]["match"]
        lines.append(_row("match", "yes" if match else "no"))
    if cost := data["draft_cost"]:
        tokens = cost["tokens_per_pass"]
        lines.append(
            _row(
                "draft cost",
                f"a pass reads {cost['share']:.1%} of a target pass and drafts "
                f"{'one token' if tokens == 1 else f'{tokens} tokens'}",
            )
        )
    lines += [f"problem: {problem}" for problem in data["problems"]]
    lines += [f"warning: {warning}" for warning in data["warnings"]]
    return [part for line in lines for part in _wrapped(line)]


def _row(label: str, value: str) -> str:
    return f"  {label:<13} {value}"


def _wrapped(line: str) -> list[str]:
    line = "".join(c if c.isprintable() else "?" for c in line)  # names come from strangers
    indent = " " * (16 if line.startswith("  ") else 2)
    return textwrap.wrap(line, 80, subsequent_indent=indent, break_long_words=False) or [""]


def _described(found: dict[str, Any], configured: int | None = None) -> list[str]:
    rows = {
        "kind": KIND_WORDS[found["kind"]],
        "architecture": _architecture(found),
        "parameters": f"{_count(found['parameters'])}, {found['dtype']}",
        "quantised": _quantised(found["quantisation"]),
        "head": _head(found),
        "caches": _caches(found["caches"]),
        "tokenizer": _tokenizer(found["tokenizer"]),
        "context": _context(found["native_context"], configured),
        "weights": gigabytes(found["weight_bytes"]),
        "KV per token": _kv(found["kv_bytes_per_token"]),
    }
    if found["kind"] == "mtp-sidecar":
        rows = {key: rows[key] for key in ("kind", "quantised", "head")}
    notes = [_row("note", note) for note in found["notes"]]
    return [found["name"], *(_row(*row) for row in rows.items()), *notes]


def _context(native: int | None, configured: int | None) -> str:
    said = f"{native:,} native" if native else "unknown"
    return f"{said}, {configured:,} configured" if configured not in (None, native) else said


def _architecture(found: dict[str, Any]) -> str:
    name = found["architecture"] or "unnamed"
    code = ", needs its own code" if found["own_code"] else ""
    known = "" if found["runnable"] or found["kind"] != "target" else ", unknown to mlx-lm"
    shape = f"{found['layers']} layers, hidden {found['hidden_size']}"
    return f"{name} ({found['model_type']}{known}{code}), {shape}"


def _count(parameters: int) -> str:
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


def _head(found: dict[str, Any]) -> str:
    head = found["head"]
    if head is None:
        promised = found["head_promised"]
        return "none" + (f" (the config promises {promised}, the files lack it)" * bool(promised))
    parts = [
        head["layout"],
        f"{head['layers']} layer{'s' * (head['layers'] != 1)}",
        f"{head['tensors']} tensors",
        f"{gigabytes(head['bytes'])} in {', '.join(head['files'])}",
    ]
    lacks = f"; lacks {', '.join(head['missing'])}" if head["missing"] else ""
    return ", ".join(parts) + lacks


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
        return "none of its own"
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
