"""A bench from a command line's wishes: configurations, prompts, conditions, verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_specdec import hub
from llm_specdec.bench import endpoints, machine, prompts, sessions
from llm_specdec.bench.endpoints import Endpoints
from llm_specdec.bench.rules import Case
from llm_specdec.bench.runs import Progress, Said, Schedule, digest, perform
from llm_specdec.bench.sessions import Configuration, Sessions
from llm_specdec.bench.store import Asked, Store
from llm_specdec.checkpoint import fingerprint
from llm_specdec.console.notices import warn
from llm_specdec.drafters.recognise import read
from llm_specdec.drafters.table import NONE, words
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing, Registry


def bench(model: str, options: Mapping[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Run a bench, store it, and let its verdict enable or disable the pairing.

    `options` as `cli/bench.py` names them. Raises SpecdecError.
    """
    known = registry.load()
    pairing, profile = known.find(model)
    configs = _configs(known, model, options)
    store = Store()
    if not pairing.served and (others := machine.others_now()) > machine.BUSY:
        warn(
            f"other processes use {others:.0%} of the cores: while they run, "
            "the bench decides nothing"
        )
    tell(f"loading {pairing.name}")
    runner = _runner(configs, options)
    found = _prompts(runner, options)
    mode = "warm" if options["warm"] else "lanes" if options["lanes"] else "cold"
    schedule = Schedule(
        asked=Asked(pairing.name, profile, options["against"], mode, _gate(options)),
        configs=[config.name for config in configs],
        prompts=found,
        runs=options["runs"],
        conditions=_conditions(configs, found, runner, options),
    )
    # A server's own work is that of another process, here or elsewhere.
    meanwhile = (lambda: 0.0) if pairing.served else machine.Watch().others
    result = perform(schedule, runner, store, Progress(tell, schedule.steps), meanwhile)
    if isinstance(runner, Endpoints):
        result["verdict"] = endpoints.judged(result["verdict"], runner.servers())
        store.finish(result["id"], result["verdict"], result["partial"])
    judged = options["against"] == "none" and not options["no_gate"]
    concerned = _concerned(known, pairing, result) if judged else None
    if concerned and (applied := _apply(concerned, result)):
        result["verdict"]["applied"] = applied
        store.finish(result["id"], result["verdict"], result["partial"])
    return result


def _gate(options: Mapping[str, Any]) -> float | None:
    gate: float = options["gate"]
    return None if options["no_gate"] else gate


def _runner(configs: Sequence[Configuration], options: Mapping[str, Any]) -> Sessions | Endpoints:
    if configs[0].pairing.served:
        return Endpoints(configs, options["max_tokens"])
    return Sessions(configs, options["max_tokens"], keeps=options["warm"])


def _configs(known: Registry, model: str, options: Mapping[str, Any]) -> list[Configuration]:
    """The baseline first. Raises UsageError where there are no two of one target."""
    pairing, profile = known.find(model)
    if pairing.served:
        return _served(known, model, options)
    if options["lanes"]:
        return sessions.lanes(_sharing(known, pairing), profile)
    own = sessions.config(model, pairing, profile)
    if options["against"] == "none":
        if pairing.kind == NONE.name and options["warm"]:
            return [own]  # the target alone, warm against cold
        if pairing.kind == NONE.name:
            raise UsageError(
                f"{pairing.name} has no drafter, there is nothing to gate: try --lanes, or set "
                "it --against another pairing"
            )
        return [sessions.alone(pairing, profile), own]
    baseline = _baseline(known, own, options["against"])
    other = baseline.pairing
    other.check_local(f"be compared with {pairing.name}, which runs here")
    if other.target != pairing.target:
        raise UsageError(
            f"{other.name} and {pairing.name} have different targets: one change per bench"
        )
    return _one_change(baseline, own, 1)


def _served(known: Registry, model: str, options: Mapping[str, Any]) -> list[Configuration]:
    """Two endpoints with the same settings. Raises UsageError."""
    pairing, profile = known.find(model)
    if options["lanes"] or options["warm"]:
        raise UsageError(f"{pairing.name} is served: leave --lanes and --warm out")
    if options["against"] == "none":
        raise UsageError(
            f"{pairing.name} is served, and its server drafts or does not: add a server that was "
            "started otherwise, and name it with --against"
        )
    own = sessions.config(model, pairing, profile)
    baseline = _baseline(known, own, options["against"])
    other = baseline.pairing
    if not other.served:
        raise UsageError(f"{pairing.name} is served and {other.name} is not: bench two of a kind")
    same = other.served == pairing.served and other.target == pairing.target
    return _one_change(baseline, own, 1 if same else 0)


def _baseline(known: Registry, own: Configuration, against: str) -> Configuration:
    """What --against names. Raises UsageError where it is the same."""
    other, profile = known.find(against)
    if (other.name, profile) == (own.pairing.name, own.profile):
        raise UsageError(f"{own.name} against itself shows nothing: name another with --against")
    return sessions.config(against, other, profile)


def _one_change(baseline: Configuration, own: Configuration, most: int) -> list[Configuration]:
    """Both, where no more settings differ. Raises UsageError."""
    if len(changes := sessions.changes(baseline, own)) > most:
        raise UsageError(
            f"{baseline.name} and {own.name} differ in {' and '.join(changes)}: "
            "one change per bench"
        )
    return [baseline, own]


def _sharing(known: Registry, pairing: Pairing) -> list[Pairing]:
    """`pairing` first, then all others of its target, and the target's own head, if any."""
    others = [
        other
        for other in known.pairings.values()
        if other.target == pairing.target and not other.served and other.name != pairing.name
    ]
    found = [pairing, *others]
    for name in own_kinds(pairing):
        if not any(one.kind == name for one in found):
            found.append(replace(pairing, name=name, kind=name, drafter=name))
    return found


def own_kinds(pairing: Pairing) -> list[str]:
    """The kinds of drafters that the target's own files hold."""
    return list(read(hub.locate(pairing.target, offline=True)).parts)


def _prompts(runner: Sessions | Endpoints, options: Mapping[str, Any]) -> dict[Case, Said]:
    if options["prompt_file"]:
        texts = prompts.from_file(options["prompt_file"])
        counts = {name: runner.count(text) for name, text in texts}
        for name, tokens in counts.items():
            _check_room(runner, name, tokens, options["max_tokens"])
        return {Case(name, counts[name]): runner.prompt(text) for name, text in texts}
    contexts = options["contexts"] or (prompts.DEFAULT_TOKENS,)
    # Before a text is made for it: one of a million tokens takes minutes.
    _check_room(runner, "--context", max(contexts), options["max_tokens"])
    return {
        Case(text, context): runner.prompt(prompts.built_in(text, context, runner.count))
        for context in sorted(set(contexts))
        for text in options["texts"] or prompts.CLASSES
    }


def _check_room(runner: Sessions | Endpoints, what: str, tokens: int, max_tokens: int) -> None:
    """Raises ContextError for a prompt whose answer would not fit into the context."""
    if tokens + max_tokens > runner.context:
        raise ContextError(
            f"{what}: {tokens} prompt tokens and {max_tokens} new ones are more than "
            f"the context of {runner.context}: lower --context or --max-tokens"
        )


def _conditions(
    configs: Sequence[Configuration],
    found: Mapping[Case, Said],
    runner: Sessions | Endpoints,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """All that someone else needs to repeat the bench."""
    return {
        "machine": machine.machine(),
        "state": machine.state(),
        "versions": machine.versions(),
        "models": _all_models(configs),
        "configs": [config.as_json() for config in configs],
        "cases": [
            {
                **case._asdict(),
                "prompt_tokens": runner.count(said) if isinstance(said, str) else len(said),
                "counted": runner.counts,
                "prompt_sha256": digest(said),
            }
            for case, said in found.items()
        ],
        "runs": options["runs"],
        "max_tokens": options["max_tokens"],
    }


def _all_models(configs: Sequence[Configuration]) -> dict[str, Any]:
    """`models` of every configuration; where there are several drafters, each under its name."""
    if configs[0].pairing.served:
        return {config.name: _on_server(config.pairing) for config in configs}
    drafters = {
        config.name.partition(":")[0]: config.pairing
        for config in configs
        if config.lane.kind != NONE.name and config.pairing.drafter not in words()
    }
    if len({pairing.drafter for pairing in drafters.values()}) < 2:
        return models(next(iter(drafters.values()), configs[-1].pairing))
    found = {name: models(pairing) for name, pairing in drafters.items()}
    target = next(iter(found.values()))["target"]
    return {
        "target": target,
        **{f"drafter {name}": each["drafter"] for name, each in found.items()},
    }


def models(pairing: Pairing) -> dict[str, Any]:
    """role → name, architecture, bits, group size, fingerprint of a pairing's checkpoints."""
    names = {"target": pairing.target}
    if pairing.drafter not in words():
        names["drafter"] = pairing.drafter
    return {role: _model(name) for role, name in names.items()}


def _model(name: str) -> dict[str, Any]:
    folder = hub.locate(name, offline=True)
    anatomy = read(folder)
    packed = anatomy.quantisation
    return {
        "name": name,
        "architecture": anatomy.model_type,
        "bits": packed.bits if packed else None,
        "group_size": packed.group_size if packed else None,
        "fingerprint": fingerprint(folder),
    }


def _on_server(pairing: Pairing) -> dict[str, Any]:
    """What is known of a served model: not its address, which is nobody's business."""
    assert pairing.served
    engine = " ".join(filter(None, (pairing.served.engine, pairing.served.version)))
    return {
        "name": pairing.target,
        "architecture": f"served by {engine}",
        "bits": None,
        "group_size": None,
        "fingerprint": "",
    }


def _concerned(known: Registry, pairing: Pairing, result: Mapping[str, Any]) -> Pairing | None:
    """Whom the verdict is about: the pairing; of a broken lane the one whose drafter it is."""
    broken = [
        row["config"].partition(":")[0]
        for case in result["cases"]
        for row in case["configs"]
        if row["parity"] and row["parity"]["status"] == "broken"
    ]
    if result["mode"] != "lanes" or not broken or broken[0] == pairing.kind:
        return pairing
    return known.pairings.get(broken[0])


def _apply(pairing: Pairing, result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Enable what was adopted, disable what was vetoed or is broken; files stay. What changed:
    pairing, enabled, was_enabled; None where nothing does."""
    verdict = result["verdict"]
    reasons = f"{result['id']}: {'; '.join(verdict['reasons'])}"
    if verdict["status"] == "adopted":
        change = {"enabled": True, "disabled_reason": ""}
    elif verdict["status"] == "vetoed":
        change = {"enabled": False, "disabled_reason": f"{registry.VETOED} {reasons}"}
    elif verdict["status"] == "broken":
        change = {"enabled": False, "disabled_reason": f"{registry.BROKEN} {reasons}"}
    else:
        return None
    with registry.change(pairing.name) as table:
        table.update(change)
    return {
        "pairing": pairing.name,
        "enabled": change["enabled"],
        "was_enabled": pairing.enabled,
    }
