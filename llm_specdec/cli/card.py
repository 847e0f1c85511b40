"""`llm specdec card`: what a model's card, and those of its bases, say about sampling."""

import textwrap
from collections.abc import Iterable, Iterator

import click

from llm_specdec import cards, hub
from llm_specdec.cards import Card, Range
from llm_specdec.cli.output import WIDTH, print_json, show_value, table
from llm_specdec.console.text import echo

MOST_LINES = 20


@click.command(name="card", short_help="Show what a model's card recommends, line by line")
@click.argument("path_or_repo", metavar="REPO_OR_PATH")
@click.option("--why", is_flag=True, help="Every line on the subject, and the rule that decided")
@click.option("--json", "as_json", is_flag=True, help="Everything found, as JSON")
def card_command(path_or_repo: str, why: bool, as_json: bool) -> None:
    """Show what the cards of a model and of its base models say about sampling.

    Reads README.md and generation_config.json, and follows base_model in the front
    matter. Each value is shown with its line and its mode, and so is what the card
    rejects, calls essential or contradicts. Nothing is stored.

    A value is taken only where its meaning is certain. Other lines on the subject are
    shown for you to read, or set aside because they are about something else, such as
    a benchmark; --why lists all of them.

    \b
    Examples:
      llm specdec card mlx-community/Qwen3.8-27B-4bit
      llm specdec card mlx-community/Qwen3.8-27B-4bit --why
      llm specdec card ./my-model --json
    """
    card = cards.read(hub.read_card(path_or_repo), path_or_repo)
    if as_json:
        print_json(card.to_dict())
        return
    for line in reasons(card) if why else describe(card):
        echo(line)


def describe(card: Card) -> Iterator[str]:
    """A card in lines of at most 80 columns, grouped by repository and by line."""
    for repo in card.lineage:
        yield repo if repo == card.target else f"{repo} (base)"
        yield from _places(card, repo)
        yield ""
    if card.notes:
        yield from (line for note in card.notes for line in _wrap(note, ""))
        yield ""
    if card.system_default:
        yield "Recommended system prompt"
        yield from _wrap(card.system_default, "  ")
        yield ""
    if card.disagreements:
        yield "Disagreements (nothing is taken; you decide)"
        yield from (f"  {row}" for row in _disagreements(card))
        yield ""
    yield from _to_read(card)
    if card.recommended or card.ranges or card.forbidden:
        yield from _effective(card)


def reasons(card: Card) -> Iterator[str]:
    """Every line that was judged, with what became of it and by which rule."""
    for repo in card.lineage:
        yield repo if repo == card.target else f"{repo} (base)"
        for line in (line for line in card.lines if line.repo == repo):
            yield f"  {line.outcome}: {line.rule}"
            yield from _wrap(f"{cards.README}:{line.line}  {line.text}", "      ", limit=3)
        yield ""


def _places(card: Card, repo: str) -> Iterator[str]:
    """Each line of a card that says something, and below it what it says, by mode."""
    said: dict[tuple[str, int | None], tuple[str, dict[str | None, list[str]]]] = {}
    for file, number, text, mode, what in _said(card, repo):
        said.setdefault((file, number), (text, {}))[1].setdefault(mode, []).append(what)
    if not said:
        yield "  says nothing about sampling"
    for (file, line), (text, modes) in sorted(said.items(), key=_by_place):
        yield from _wrap(f"{file}:{line}  {text}" if line else file, "  ", limit=2)
        for mode, whats in modes.items():
            yield from _wrap((f"[{mode}] " if mode else "") + " · ".join(whats), "      ")


def _said(card: Card, repo: str) -> Iterator[tuple[str, int | None, str, str | None, str]]:
    """(file, line, text, mode, what) of everything that one repository says."""
    required = {(r.repo, r.setting, r.line) for r in card.required}
    for f in (f for f in card.recommended if f.repo == repo):
        must = " (required)" if (f.repo, f.setting, f.line) in required else ""
        text = f.text if f.line else ""
        yield f.file, f.line, text, f.mode, f"{f.setting} {show_value(f.value)}{must}"
    for r in (r for r in card.ranges if r.repo == repo):
        yield cards.README, r.line, r.text, r.mode, f"{r.setting} {span(r)}"
    for no in (no for no in card.forbidden if no.repo == repo):
        yield cards.README, no.line, no.text, None, f"no {no.setting}"
    for broken in (u for u in card.unreadable if u.repo == repo):
        yield broken.file, None, "", None, f"unreadable, nothing taken: {broken.reason}"


def _by_place(entry: tuple[tuple[str, int | None], object]) -> tuple[str, int]:
    (file, line), _ = entry
    return file, line or 0


def span(r: Range) -> str:
    """A range in words."""
    if r.low is None:
        return f"at most {show_value(r.high)}"
    if r.high is None:
        return f"at least {show_value(r.low)}"
    return f"{show_value(r.low)} to {show_value(r.high)}"


def _disagreements(card: Card) -> list[str]:
    return table(
        [
            [d.setting, d.mode or "", " or ".join(map(show_value, d.values))]
            for d in card.disagreements
        ]
    )


def _effective(card: Card) -> Iterator[str]:
    yield "What may be taken"
    for mode, values in card.effective.items():
        taken = " · ".join(f"{name} {show_value(value)}" for name, value in values.items())
        yield from _wrap(f"{mode}: {taken or 'nothing'}", "  ")


def _to_read(card: Card) -> Iterator[str]:
    """The lines that may be advice and are not certain enough to take."""
    sure = bool(card.recommended or card.ranges or card.forbidden)
    lines = [line for line in card.lines if line.outcome == "shown"]
    if not lines:
        yield from [] if sure else ["nothing sure: no line names a setting with a figure"]
        return
    found = "Read these lines yourself (not taken)"
    yield found if sure else "nothing sure: read it yourself, here are the lines"
    for line in lines[:MOST_LINES]:
        where = "" if line.repo == card.target else f"{line.repo} "
        yield from _wrap(f"{where}{cards.README}:{line.line}  {line.text}", "  ", limit=2)
    if len(lines) > MOST_LINES:
        yield f"  … and {len(lines) - MOST_LINES} more (--why lists all)"
    if sure:
        yield ""


def _wrap(text: str, indent: str, limit: int | None = None) -> Iterable[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        max_lines=limit,
        placeholder=" …",
        break_on_hyphens=False,
    )
