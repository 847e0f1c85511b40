"""`llm specdec inspect`: what a checkpoint is and what it takes, before any weight is loaded."""

from dataclasses import asdict
from typing import Any

import click

from llm_specdec import memory
from llm_specdec.checkpoint import TARGET, Anatomy, Vocabulary
from llm_specdec.cli import lost
from llm_specdec.cli.inspect_text import lines
from llm_specdec.cli.output import print_json
from llm_specdec.console.text import echo
from llm_specdec.drafters import fit
from llm_specdec.drafters.recognise import read
from llm_specdec.drafters.table import KINDS, of_files
from llm_specdec.errors import UsageError

CONTEXTS = (4096, 32768)  # tokens; the full context is added


@click.command(name="inspect", short_help="Show what a model is, what it needs, which drafter fits")
@click.argument("target")
@click.argument("drafter", required=False)
@click.option(
    "--context",
    type=click.IntRange(min=1),
    help="Tokens to plan memory for; by default the native context",
)
@click.option(
    "--head-from",
    metavar="PATH_OR_REPO",
    help="In place of DRAFTER: a model whose prediction head may draft for TARGET",
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON")
def inspect_command(
    target: str, drafter: str | None, context: int | None, head_from: str | None, as_json: bool
) -> None:
    """Show what TARGET is, how much memory it needs and which drafter fits.

    Reads files, not weights: configuration, tensor names and sizes, tokenizer and
    template. With a DRAFTER: whether the two fit, and what a draft costs. Both are
    folders, or repositories that were downloaded before.

    \b
    Examples:
      llm specdec inspect mlx-community/Qwen3.8-27B-4bit
      llm specdec inspect ./my-model ./my-drafter --context 16384
    """
    if drafter and head_from:
        raise UsageError("DRAFTER and --head-from both name what drafts: give one of them")
    beside, lent = head_from or drafter, bool(head_from)
    found = _read(target)
    data = report(found, _read(beside) if beside else None, context, lent)
    if not beside and (why := fit.lost(found)):
        data["warnings"].append(lost.advice(why, target))
    if as_json:
        print_json(data)
    else:
        echo("\n".join(lines(data)))


def _read(name: str) -> Anatomy:
    from llm_specdec import hub

    return read(hub.locate(name, offline=True))


def report(
    target: Anatomy, drafter: Anatomy | None, context: int | None, lent: bool = False
) -> dict[str, Any]:
    """All that inspect knows, as plain data. lent: as for `fit.kind_in`."""
    data: dict[str, Any] = {"target": describe(target)}
    problems = fit.target_problems(target)
    if drafter is not None:
        differences = [] if problems else fit.mismatches(target, drafter, lent)
        data["drafter"] = {
            **describe(drafter),
            "match": not problems and not differences,
            "differences": differences,
        }
        problems = [*problems, *differences]
    cost = None if problems else fit.draft_cost(target, drafter, lent)
    data["draft_cost"] = asdict(cost) if cost else None
    data["problems"] = problems
    data["warnings"] = [] if problems else fit.warnings(target, drafter, lent)
    if target.kind == TARGET:
        pair = drafter if data.get("drafter", {}).get("match") else None
        lane = fit.kind_in(pair, lent).name if pair else None
        data["memory"] = _memory(target, pair, context, lane)
        recommended = None if fit.target_problems(target) else fit.recommend(target, pair, lent)
        data["lane"] = asdict(recommended) if recommended else None
    return data


def describe(found: Anatomy) -> dict[str, Any]:
    quantisation, tokenizer = found.quantisation, found.tokenizer
    return {
        "name": found.folder.name,
        "kind": found.kind,
        "helper": found.kind != TARGET,
        "made_for": None if found.kind == TARGET else of_files(found.kind).made_for(found),
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
        "vocabulary": _vocabulary(found.vocabulary) if found.kind == TARGET else None,
        "tied_embeddings": found.tied_embeddings,
        **{key: told for kind in KINDS.values() for key, told in kind.inspected(found).items()},
        "caches": None
        if found.caches is None
        else [{"kind": layer.kind, "window": layer.window} for layer in found.caches],
        "tokenizer": tokenizer and asdict(tokenizer),
        "native_context": found.positions.native,
        "context_is_hard": found.positions.hard,
        "weight_bytes": found.weight_bytes,
        "kv_bytes_per_token": found.kv_bytes_per_token,
        "notes": [*found.notes, *(found.vocabulary.notes if found.kind == TARGET else ())],
    }


def _vocabulary(found: Vocabulary) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "last_id": found.size - 1,
        "holes": len(found.holes),
        "beyond_rows": len(found.beyond),
        "ends": list(found.ends),
    }


def _memory(
    target: Anatomy, drafter: Anatomy | None, context: int | None, lane: str | None
) -> dict[str, Any]:
    full = context or target.positions.native or CONTEXTS[-1]
    limit = memory.budget()

    def need(tokens: int) -> int:
        return memory.estimate(target, drafter, tokens, lane=lane).total

    def fits(tokens: int) -> bool:
        return need(tokens) <= limit.nbytes

    lengths = sorted({n for n in CONTEXTS if n < full} | {full})
    return {
        "context": full,
        "needs": [{"tokens": n, "bytes": need(n), "fits": fits(n)} for n in lengths],
        "limit_bytes": limit.nbytes,
        "limit": limit.what,
        "largest_context": memory.largest_context(fits, full),
    }
