"""`llm specdec doctor`: what is broken or odd in this setup, and the command that mends it."""

import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import click

from llm_specdec import anatomy, cache_limits, hub, memory, registry, settings
from llm_specdec.anatomy import Anatomy, fit
from llm_specdec.cli.output import print_json
from llm_specdec.errors import CheckFailed, RegistryError, SpecdecError
from llm_specdec.options import stored_options
from llm_specdec.registry import BUILT_IN, Pairing, Registry
from llm_specdec.sizes import gigabytes

NEARLY = 0.9  # of the prefix cache's cap


@dataclass(frozen=True)
class Finding:
    """level: ok | warning | broken. `fix` is a command, or what to do where none does it."""

    level: str
    what: str
    why: str = ""
    fix: str = ""


Findings = Iterator[Finding]


@click.command(name="doctor", short_help="What is broken in this setup, and what mends it")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON")
def doctor_command(as_json: bool) -> None:
    """Check versions, device, registry, pairings and their files, space and logging.

    Each finding says what it is, why it matters and the command that mends it. Exit
    status 1 when something is broken; a warning alone is 0. Nothing is changed.

    \b
    Examples:
      llm specdec doctor
      llm specdec doctor --json
    """
    found = [finding for check in CHECKS for finding in examine(check)]
    broken = sum(finding.level == "broken" for finding in found)
    if as_json:
        data = {"ok": not broken, "findings": [asdict(finding) for finding in found]}
        print_json(data)
    else:
        for finding in found:
            click.echo(shown(finding))
    if broken:
        raise CheckFailed(f"{broken} broken; see the findings above")


def examine(check: Callable[[], Findings]) -> Findings:
    """A check's findings; one that fails is a finding too."""
    try:
        yield from check()
    except SpecdecError as error:
        yield Finding("broken", str(error))


def shown(finding: Finding) -> str:
    lines = [f"{finding.level:<8} {finding.what}"]
    lines += [f"         why: {finding.why}"] * bool(finding.why)
    lines += [f"         fix: {finding.fix}"] * bool(finding.fix)
    return "\n".join(lines)


# ---- the installation ----


def versions() -> Findings:
    """Installed versions against the ranges that this release was tested with."""
    from packaging.requirements import Requirement

    try:
        asked = map(Requirement, metadata.requires("llm-specdec") or [])
    except metadata.PackageNotFoundError:
        yield Finding("warning", "llm-specdec is not installed as a package, ranges are unknown")
        return
    wanted = {need.name: need.specifier for need in asked if need.marker is None}
    for name in ("llm", "mlx", "mlx-lm"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding("broken", f"{name} is missing", "nothing can run", f"llm install {name}")
            continue
        if wanted[name].contains(version, prereleases=True):
            yield Finding("ok", f"{name} {version}")
        else:
            yield Finding(
                "warning",
                f"{name} {version} is outside the tested range {wanted[name]}",
                "its internals may have moved: output or speed may be wrong",
                f"llm install {shlex.quote(f'{name}{wanted[name]}')}",
            )


def backend() -> Findings:
    """The device that mlx computes on; on a Linux CPU also the BLAS that multiplies.

    Raises ResourceError where mlx has no backend.
    """
    from llm_specdec.engine import blas, device

    yield Finding("ok", f"device: {device.name()}")
    found, chosen = blas.preload(), os.environ.get(blas.VARIABLE)
    if found and found.name:
        yield Finding("ok", f"BLAS: {found.name}")
    elif found:
        yield Finding(
            "warning",
            f"BLAS: mlx's own ({found.reason})",
            "verifying several tokens costs as much as decoding them: drafting cannot pay",
            f"unset {blas.VARIABLE}" if chosen else "llm install 'llm-specdec[cpu]'",
        )


def logging() -> Findings:
    if (_user_dir() / "logs-off").exists():
        yield Finding(
            "warning",
            "logging is off",
            "runs leave no receipt: logs and compare have nothing to show",
            "llm logs on",
        )
    else:
        yield Finding("ok", "logging is on")


def disk() -> Findings:
    """Free disk, and the prefix cache that lives on it."""
    known = _registry() or Registry(registry.default_path())
    store = cache_limits.store(known)
    held, free = store.contents().nbytes, store.free()
    cap = cache_limits.disk(known, held, free)
    said = f"{gigabytes(free)} of disk is free; prefix cache: {gigabytes(held)}"
    if cap.nbytes == 0 and not cap.own:
        yield Finding(
            "warning",
            f"{said}, {cap}",
            "every prompt is read from its beginning, and downloads may fail",
            "free some disk; llm specdec cache limit 0 turns the cache off",
        )
    elif held > cap.nbytes:
        yield Finding(
            "warning",
            f"{said}, {cap}",
            "the next run evicts entries, or other files fill its folder",
            "llm specdec cache status",
        )
    else:
        full = ", nearly full" if held > NEARLY * cap.nbytes else ""
        yield Finding("ok", f"{said}, {cap}{full}")


# ---- the registry and what it names ----


def registry_file() -> Findings:
    mend = f"$EDITOR {shlex.quote(str(registry.default_path()))}"
    try:
        found = registry.load()
    except RegistryError as error:
        why = "no pairing can be used; llm's other models can"
        yield Finding("broken", str(error), why, mend)
        return
    for problem in found.problems.values():
        yield Finding("broken", problem, "this pairing cannot be used, the others can", mend)
    if found.pairings:
        count = f"{len(found.pairings)} pairing{'s' * (len(found.pairings) != 1)}"
        yield Finding("ok", f"registry: {count} in {found.path.name}")
    elif not found.problems:
        yield Finding(
            "ok", "registry: no pairing yet", "", "llm specdec add NAME --target PATH_OR_REPO"
        )


def pairings() -> Findings:
    found = _registry()
    for pairing in found.pairings.values() if found else ():
        yield from examine(partial(one_pairing, pairing))


def one_pairing(pairing: Pairing) -> Findings:
    """Files there, unchanged and still fitting each other; memory enough."""
    folders: dict[str, Path] = {}
    for role, place in _roles(pairing).items():
        try:
            folders[role] = hub.locate(place, offline=True)
        except SpecdecError as error:
            mend = _remove(pairing) if place.startswith(("/", "~", ".")) else _again(pairing)
            yield Finding("broken", f"{pairing.name}: {role}: {error}", "it cannot run", mend)
    if len(folders) < len(_roles(pairing)):
        return
    changed = [role for role, folder in folders.items() if _changed(pairing, role, folder)]
    for role in changed:
        yield Finding(
            "warning",
            f"{pairing.name}: the {role}'s files changed since it was added",
            "its bench results and card values are those of other weights",
            _again(pairing),
        )
    target = anatomy.read(folders["target"])
    drafter = anatomy.read(folders["drafter"]) if "drafter" in folders else None
    problems = list(_misfits(pairing, target, drafter))
    yield from problems
    yield from _space(pairing, target, drafter)
    if not changed and not problems:
        yield Finding("ok", f"{pairing.name}: files are whole and fit each other")


def _roles(pairing: Pairing) -> dict[str, str]:
    drafter = {} if pairing.drafter in BUILT_IN else {"drafter": pairing.drafter}
    return {"target": pairing.target, **drafter}


def _changed(pairing: Pairing, role: str, folder: Path) -> bool:
    known = pairing.fingerprints.get(role)
    return known is not None and known != anatomy.fingerprint(folder)


def _again(pairing: Pairing, drafter: str | None = None) -> str:
    """The command that adds a pairing anew, downloads included; settings and profiles stay."""
    words = [
        "llm", "specdec", "add", pairing.name, "--force",
        "--target", pairing.target, "--drafter", drafter or pairing.drafter,
    ]  # fmt: skip
    return shlex.join(words)


def _remove(pairing: Pairing) -> str:
    return shlex.join(["llm", "specdec", "remove", pairing.name])


def _misfits(pairing: Pairing, target: Anatomy, drafter: Anatomy | None) -> Findings:
    problems = fit.target_problems(target)
    if pairing.kind == "mtp" and not (target.head and target.head.usable):
        problems = [*problems, "the prediction head it drafts with is not in the files"]
    if drafter is not None and not problems:
        problems = fit.mismatches(target, drafter)
    for problem in problems:
        why = "target and drafter do not fit (any more): it cannot run"
        yield Finding("broken", f"{pairing.name}: {problem}", why, _again(pairing, "auto"))


def _space(pairing: Pairing, target: Anatomy, drafter: Anatomy | None) -> Findings:
    context = settings.resolve(pairing).values["context"]
    full = context or target.native_context or memory.STEP

    def fits(tokens: int) -> bool:
        need = memory.estimate(
            target,
            drafter,
            tokens,
            drafter_bits=pairing.drafter_bits,
            drafter_group_size=pairing.drafter_group_size,
            head=pairing.kind == "mtp",
        )
        return need.total <= limit.nbytes

    limit = memory.budget()
    most = memory.largest_context(fits, full)
    size = gigabytes(limit.nbytes)
    if most == 0:
        yield Finding(
            "broken",
            f"{pairing.name}: not even its weights fit ({limit.what}: {size})",
            "every run is refused",
            _remove(pairing),
        )
    elif most < full:
        yield Finding(
            "warning",
            f"{pairing.name}: {most:,} of {full:,} tokens of context fit ({limit.what}: {size})",
            "a longer run is refused",
            f"llm specdec set {shlex.quote(pairing.name)} context={most}",
        )


def shadowed() -> Findings:
    """Values that were set and do not count, because a higher layer says otherwise."""
    found = _registry()
    for model_id, (pairing, profile) in (found.ids() if found else {}).items():
        yield from examine(partial(_shadows, model_id, pairing, profile))


def _shadows(model_id: str, pairing: Pairing, profile: str | None) -> Findings:
    resolution = settings.resolve(pairing, profile, stored_options(model_id), model_id=model_id)
    hidden = [
        name
        for name, top in resolution.settings.items()
        if top.layer == "profile" and any(v.layer == "pairing" for v in top.shadowed)
    ]
    if hidden:
        yield Finding("ok", f"{model_id}: the profile's {', '.join(hidden)} shadow the pairing's")
    for name, top in resolution.settings.items():
        lost = [v for v in top.shadowed if v.layer != settings.LAYERS[0]]
        if top.layer == "stored option" and lost and lost[0].value != top.value:
            yield Finding(
                "warning",
                f"{model_id}: stored option {name} = {top.value} shadows "
                f"{lost[0].value} of the {lost[0].layer}",
                "the recipe that the registry shows is not the one that runs",
                shlex.join(["llm", "models", "options", "clear", model_id, name]),
            )


def stale_benches() -> Findings:
    """Bench verdicts that were reached under another mlx, machine or checkpoint."""
    from llm_specdec.bench.standing import standings

    found = _registry()
    for name, standing in (standings(found) if found else {}).items():
        if standing.stale:
            yield Finding(
                "warning",
                f"{name}: {standing.line()}",
                "its verdict and rates may not hold any more",
                f"llm specdec bench {shlex.quote(name)} --gate {standing.gate_pct:g}",
            )


def _registry() -> Registry | None:
    """The registry, None where `registry_file` reports that it is broken."""
    try:
        return registry.load()
    except RegistryError:
        return None


def _user_dir() -> Path:
    import llm

    return Path(llm.user_dir())


CHECKS: list[Callable[[], Findings]] = [
    versions,
    backend,
    registry_file,
    pairings,
    shadowed,
    stale_benches,
    disk,
    logging,
]
