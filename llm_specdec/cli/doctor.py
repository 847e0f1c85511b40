"""`llm specdec doctor`: what is broken or odd in this setup, and the command that mends it."""

from dataclasses import asdict

import click

from llm_specdec.checks import CHECKS, Finding, examine
from llm_specdec.cli.output import print_json
from llm_specdec.console.progress import progress
from llm_specdec.console.text import echo, one_line
from llm_specdec.errors import CheckFailed


@click.command(name="doctor", short_help="Find what is broken, and how to fix it")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON")
def doctor_command(as_json: bool) -> None:
    """Check versions, device, registry, pairings and their files, space and logging.

    Each finding says what is wrong, why it matters and which command fixes it. Exit
    status 1 means that something is broken; a warning alone gives 0. Nothing is changed.

    \b
    Examples:
      llm specdec doctor
      llm specdec doctor --json
    """
    with progress("looking at versions, pairings and their files"):
        found = [finding for check in CHECKS for finding in examine(check)]
    broken = sum(finding.level == "broken" for finding in found)
    if as_json:
        data = {"ok": not broken, "findings": [asdict(finding) for finding in found]}
        print_json(data)
    else:
        for finding in found:
            echo(shown(finding))
    if broken:
        raise CheckFailed(f"{broken} broken; see the findings above")


def shown(finding: Finding) -> str:
    lines = [f"{finding.level:<8} {finding.what}"]
    lines += [f"         why: {finding.why}"] * bool(finding.why)
    lines += [f"         fix: {finding.fix}"] * bool(finding.fix)
    return "\n".join(map(one_line, lines))
