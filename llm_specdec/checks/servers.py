"""A served pairing: is its server there, and is it what it was?"""

import shlex

from llm_specdec.checks.finding import Finding, Findings
from llm_specdec.errors import ResourceError, UsageError
from llm_specdec.pairings.registry import Pairing

DRAFTS = {True: "it drafts", False: "it does not draft", None: "it does not say if it drafts"}


def one_served(pairing: Pairing) -> Findings:
    """Reachable, the same engine and model as added; whether it drafts."""
    from llm_specdec.backends.served import detection
    from llm_specdec.backends.served.engines import ENGINES

    assert pairing.served
    served, engine = pairing.served, ENGINES[pairing.served.engine]
    try:
        found = detection.detect(served)
        detection.target_of(found, pairing.target, served)
    except ResourceError as error:
        how = f"start the server; if it has moved, {_again(pairing)} with its new address"
        yield Finding("broken", f"{pairing.name}: {error}", "it cannot run", how)
        return
    except UsageError as error:
        yield Finding("broken", f"{pairing.name}: {error}", "it cannot run", _again(pairing))
        return
    version = f" {found.version}" if found.version else ""
    said = f"{pairing.name}: {served.engine}{version} at {served.url}"
    if served.version and found.version and found.version != served.version:
        yield Finding(
            "warning",
            f"{said} was {served.version} when it was added",
            "earlier receipts are those of another version",
            _again(pairing),
        )
    else:
        yield Finding("ok", f"{said} serves {pairing.target}; {DRAFTS[found.drafts]}")
    if engine.warning:
        yield Finding(
            "warning", f"{pairing.name}: {engine.warning}", "", "restart the server with it"
        )


def _again(pairing: Pairing) -> str:
    served = pairing.served
    assert served
    words = [
        "llm", "specdec", "add", pairing.name, "--force", "--served", served.url,
        *(["--key", served.key] if served.key else []),
        *(["--insecure"] if served.insecure else []),
    ]  # fmt: skip
    return shlex.join(words)
