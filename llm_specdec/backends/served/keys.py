"""The key of a server: named in the registry, kept by `llm keys`, sent to no other place."""

import ipaddress
from urllib.parse import urlsplit

import llm

from llm_specdec.errors import UsageError
from llm_specdec.pairings.registry import Served


def key_of(served: Served) -> str | None:
    """Raises UsageError where there is none of this name, or where it may or can not be sent."""
    if served.key is None:
        return None
    check(served)
    key: str | None = llm.load_keys().get(served.key)
    if not key:
        raise UsageError(f"there is no key {served.key!r}: llm keys set {served.key}")
    if not (key.isascii() and key.isprintable()):  # the transport's own error would show it
        raise UsageError(
            f"the key {served.key} cannot be sent, it has signs that no header may have: "
            f"llm keys set {served.key}"
        )
    return key


def headers(served: Served) -> dict[str, str]:
    """What a request says of the key. Raises UsageError, as `key_of`."""
    key = key_of(served)
    return {"Authorization": f"Bearer {key}"} if key else {}


def check(served: Served) -> None:
    """Raises UsageError for a key that everybody on the way could read."""
    parts = urlsplit(served.url)
    open_to_all = parts.scheme == "http" and not _here(parts.hostname or "")
    if served.key and open_to_all and not served.insecure:
        raise UsageError(
            f"{served.url} is plain http on another host, where the key {served.key} could "
            "be read on the way: use https, or allow it with --insecure"
        )


def _here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
