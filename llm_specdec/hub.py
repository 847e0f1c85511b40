"""Models by name: a local folder as it is, anything else from the model hub's cache.

Network is used by `add`, `card` and `update` only; a prompt runs with `offline=True`.
`huggingface_hub` does the work, so its cache, HF_ENDPOINT, HF_HUB_OFFLINE and tokens hold.
It is slow to import and is imported where it is used.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from llm_specdec.checkpoint.files import CONFIG_LIMIT
from llm_specdec.errors import HubError
from llm_specdec.files import read

# Everything a model needs to run. No Python files: code of a repository is never run.
MODEL_FILES = (
    "*.json",
    "*.safetensors",
    "*.jinja",
    "*.txt",
    "*.model",
    "*.tiktoken",
    "README.md",
)
README_LIMIT = 4 << 20  # bytes; the largest known card has 1 MB
CARD_FILES = ("README.md", "generation_config.json")
REPO_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


class RenamedError(HubError):
    """The repository moved; `name` is what it is called now."""

    def __init__(self, old: str, name: str) -> None:
        super().__init__(f"{old} is now called {name}: use that name")
        self.name = name


def is_local(path_or_repo: str) -> bool:
    """Whether a name means a folder here; such a name is never asked from the hub."""
    if path_or_repo.startswith((".", "/", "~")):
        return True
    with suppress(OSError):  # longer than a name may be, below a folder that is not ours
        return bool(path_or_repo) and Path(path_or_repo).exists()
    return False


def locate(
    path_or_repo: str, *, offline: bool = False, files: tuple[str, ...] = MODEL_FILES
) -> Path:
    """The folder that holds a model (or those of its `files`, glob patterns).

    offline: use only what was downloaded before.
    Raises: HubError (missing, gated, renamed, not downloaded, no network), one line.
    """
    if is_local(path_or_repo):
        return _folder(path_or_repo)
    if not REPO_NAME.fullmatch(path_or_repo):
        raise HubError(
            f"{path_or_repo!r} is no folder here and no repository name: "
            "give a folder or OWNER/NAME"
        )
    return _download(path_or_repo, files, offline)


def read_card(path_or_repo: str) -> dict[str, dict[str, Any]]:
    """README.md and generation_config.json of a model and, on and on, of its bases.

    Returns: name → {README.md: text or None, generation_config.json: object, raw text where
    that is no JSON, or None}. Each repository once; a base that the hub does not give, for
    whatever reason, ends its branch.
    """
    from llm_specdec.cards.front import base_models

    cards = {path_or_repo: _read(locate(path_or_repo, files=CARD_FILES))}
    queue = base_models(cards[path_or_repo]["README.md"])
    while queue:
        repo = queue.pop(0)
        if repo in cards or not REPO_NAME.fullmatch(repo):
            continue
        try:
            cards[repo] = _read(_follow(repo))
        except HubError:
            continue
        queue += base_models(cards[repo]["README.md"])
    return cards


def _follow(repo: str) -> Path:
    """The folder of a base's card, by its new name where it was renamed."""
    try:
        return _download(repo, CARD_FILES)
    except RenamedError as error:
        return _download(error.name, CARD_FILES)


def _folder(path: str) -> Path:
    folder = Path(path)
    try:
        with suppress(RuntimeError):  # ~name of nobody here
            folder = folder.expanduser()
        found = folder.is_dir()
    except OSError as error:
        raise HubError(f"{path} cannot be read ({error.strerror}): check the path") from error
    if not found and folder.is_file():
        raise HubError(
            f"{path} is a file: a model is a folder with config.json and .safetensors files; "
            "give the folder, or OWNER/NAME for the hub"
        )
    if not found:
        raise HubError(f"no folder {path}: check the path, or give OWNER/NAME for the hub")
    return folder


def _read(folder: Path) -> dict[str, Any]:
    readme, config = (folder / name for name in CARD_FILES)
    try:
        return {
            readme.name: _text(readme, README_LIMIT),
            config.name: _json(_text(config, CONFIG_LIMIT)),
        }
    except OSError as error:
        raise HubError(f"{error.filename} cannot be read ({error.strerror})") from error


def _text(path: Path, limit: int) -> str | None:
    """None where there is no such file. Raises OSError."""
    try:
        return read(path, limit).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _download(repo: str, files: tuple[str, ...], offline: bool = False) -> Path:
    from huggingface_hub import constants, snapshot_download

    offline = offline or constants.HF_HUB_OFFLINE
    if not offline and (name := _current_name(repo)) != repo:
        raise RenamedError(repo, name)
    bars = _without_bars() if files == CARD_FILES else nullcontext()  # they are tiny
    with _one_line_errors(repo), bars:
        folder = snapshot_download(repo, allow_patterns=list(files), local_files_only=offline)
    return Path(folder)


@contextmanager
def _without_bars() -> Iterator[None]:
    """The hub client's progress bars off."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _current_name(repo: str) -> str:
    """What the hub calls a repository now. Says nothing of errors: the download does."""
    from huggingface_hub import model_info
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    try:
        return model_info(repo).id
    except HTTPError:
        return repo


@contextmanager
def _one_line_errors(repo: str) -> Iterator[None]:
    """The one place where the hub client's errors become ours."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise HubError(
            f"{repo} is gated: ask for access on its page, then log in with `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"no repository {repo} on the hub: check the name, or log in if it is private"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise HubError(
            f"{repo} is not (wholly) downloaded and the hub is out of reach or switched off: "
            "go online and try again"
        ) from error
    except (errors.HTTPError, OSError) as error:  # type: ignore[attr-defined]
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise HubError(f"the hub did not give {repo}: {first[0]}") from error
