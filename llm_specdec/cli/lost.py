"""A head that the target promises and its files lack: the command that takes it from elsewhere."""

import shlex

from llm_specdec import files
from llm_specdec.cards.front import base_models
from llm_specdec.errors import SpecdecError
from llm_specdec.hub import README_LIMIT, locate


def advice(why: str, target: str, pairing: str | None = None) -> str:
    """why: as `fit.lost` says. target: as it was named. pairing: under which it is registered."""
    named = [pairing, "--force"] if pairing else ["NAME"]
    lent = ["--target", target, "--head-from", _base(target)]
    command = shlex.join(["llm", "specdec", "add", *named, *lent])
    return f"{why}: a build that kept it can lend it: {command}"


def _base(target: str) -> str:
    """The base model that the card names; BASE where it names none."""
    try:
        readme = files.read(locate(target, offline=True) / "README.md", README_LIMIT)
    except (OSError, SpecdecError):
        return "BASE"
    return next(iter(base_models(readme.decode("utf-8", "replace"))), "BASE")
