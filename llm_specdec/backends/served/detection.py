"""What answers at an address: engine, version, models, and whether it drafts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from llm_specdec.backends.served import failures, looking
from llm_specdec.backends.served.engines import ENGINES
from llm_specdec.errors import ResourceError, UsageError
from llm_specdec.pairings.registry import Served

AUTO = "auto"


@dataclass(frozen=True)
class Found:
    """drafts: whether the server drafts, None where it does not tell. how: what showed the
    engine."""

    engine: str
    how: str
    version: str | None
    models: tuple[str, ...]
    drafts: bool | None


def detect(served: Served) -> Found:
    """served.engine: the engine, or AUTO. Raises ResourceError, UsageError."""
    with looking.client(served) as client:
        answer = _models(client, served)
        entries = _entries(answer)
        engine, how = served.engine, "as asked"
        if engine == AUTO:
            engine, how = _engine(answer, entries)
        version, drafts = _more(client, served.root, engine, answer)
    models = tuple(str(entry["id"]) for entry in entries if entry.get("id"))
    return Found(engine, how, version, models, drafts)


def version_in(engine: str, fingerprint: str) -> str | None:
    """The version that an answer's `system_fingerprint` holds."""
    pattern = _VERSIONS.get(engine)
    found = re.match(pattern, fingerprint) if pattern else None
    return found[1] if found else None


# llama.cpp says b0 where its build does not know.
_VERSIONS = {
    "mlx-lm": r"(\d+\.\d+[\w.]*)-",
    "vllm": r"vllm-([\w.+]+)",
    "llama-server": r"(b[1-9]\d*)",
}


def _models(client: httpx2.Client, served: Served) -> looking.Found:
    try:
        answer = looking.look(client, f"{served.url}/models")
    except httpx2.HTTPError as error:
        raise failures.unreachable(served, str(error) or type(error).__name__) from error
    if answer.status in (401, 403):
        hint = f"refuses the key {served.key}" if served.key else "wants a key: give --key NAME"
        raise UsageError(f"{served.url} {hint} ({answer.status})")
    if answer.status in (404, 405):
        raise ResourceError(
            f"{served.url}/models answers {answer.status}: is the address right? "
            "It often ends in /v1"
        )
    if answer.status != 200:
        said = answer.json or answer.text
        raise failures.refused(served, "", None, answer.status, answer.headers, said)
    if answer.text.strip() and not (isinstance(answer.json, Mapping) and "data" in answer.json):
        kind = answer.headers.get("content-type", "")
        what = kind if answer.json is None and kind else "no list of models"
        raise ResourceError(f"{served.url}/models answers with {what}: is the address right?")
    return answer


def _entries(answer: looking.Found) -> list[Mapping[str, Any]]:
    """The models that it lists; mlx_lm.server may say nothing at all."""
    listed = answer.json["data"] if answer.json else None
    return [entry for entry in _list(listed) if isinstance(entry, Mapping)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _engine(answer: looking.Found, entries: list[Mapping[str, Any]]) -> tuple[str, str]:
    """By what only one engine says of itself; `openai` for all others."""
    server = answer.headers.get("server", "")
    owners = {str(entry.get("owned_by")) for entry in entries}
    for prefix, engine in (
        ("llama.cpp", "llama-server"),
        ("mlx_vlm", "mlx-vlm"),
        ("BaseHTTP", "mlx-lm"),
    ):
        if server.startswith(prefix):
            return engine, f"by its header Server: {server}"
    for owner, engine in (
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("llamacpp", "llama-server"),
        ("organization_owner", "lmstudio"),
    ):
        if owner in owners:
            return engine, f"by its models' owned_by: {owner}"
    return "openai", "nothing shows another"


def _more(
    client: httpx2.Client, root: str, engine: str, answer: looking.Found
) -> tuple[str | None, bool | None]:
    """Version, and whether it drafts, as far as the engine tells."""
    if engine == "vllm":
        return _text(_ask(client, f"{root}/version").get("version")), None
    if engine == "llama-server":
        build = version_in(engine, str(_ask(client, f"{root}/props").get("build_info", "")))
        slots = _ask(client, f"{root}/slots", list)
        told = [slot.get("speculative") for slot in slots if isinstance(slot, Mapping)]
        return build, any(told) if told else None
    if engine == "sglang":
        info = _ask(client, f"{root}/get_server_info")
        drafts = bool(info["speculative_algorithm"]) if "speculative_algorithm" in info else None
        return _text(info.get("version")), drafts
    if engine == "mlx-vlm":
        return _text(answer.headers.get("server", "").partition("/")[2]), None
    return None, None


def _ask(client: httpx2.Client, url: str, kind: type[Any] = dict) -> Any:
    """What is there, empty where there is nothing of the kind."""
    try:
        found = looking.look(client, url).json
    except httpx2.HTTPError:
        found = None
    return found if isinstance(found, kind) else kind()


def _text(value: object) -> str | None:
    return str(value) if value else None


def target_of(found: Found, asked: str | None, served: Served) -> str:
    """The model's name on the server. Raises UsageError where it is not there or not clear."""
    own = ENGINES[found.engine].own_target
    names = ", ".join(found.models[:10]) or "none"
    if asked:
        if asked not in found.models and not own and found.models:
            raise UsageError(f"{served.url} has no model {asked!r}: it serves {names}")
        return asked
    if own:
        return own
    if len(found.models) != 1:
        raise UsageError(f"{served.url} serves {names}: name one with --target")
    return found.models[0]
