"""A served pairing: is its server there, and is it what it was?"""

import shlex
from dataclasses import replace

from llm_specdec.checks.finding import Finding, Findings
from llm_specdec.errors import ResourceError, SpecdecError, UsageError
from llm_specdec.pairings import anew
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
    except ResourceError as error:
        again = anew.command(pairing)
        how = f"start the server; if it has moved, {again} with its new address"
        yield Finding("broken", f"{pairing.name}: {error}", "it cannot run", how)
        return
    except UsageError as error:
        yield Finding("broken", f"{pairing.name}: {error}", "it cannot run", _key(pairing))
        return
    try:
        detection.target_of(found, pairing.target, served)
    except UsageError as error:
        other = found.models[0] if len(found.models) == 1 else "NAME-ON-THE-SERVER"
        again = anew.command(pairing, target=other)
        yield Finding("broken", f"{pairing.name}: {error}", "it cannot run", again)
        return
    version = f" {found.version}" if found.version else ""
    said = f"{pairing.name}: {served.engine}{version} at {served.url}"
    if served.version and found.version and found.version != served.version:
        yield Finding(
            "warning",
            f"{said} was {served.version} when it was added",
            "earlier receipts are those of another version",
            anew.command(pairing),
        )
    else:
        yield Finding("ok", f"{said} serves {pairing.target}; {DRAFTS[found.drafts]}")
    yield from _tokenizer(pairing)
    if engine.warning:
        yield Finding("warning", f"{pairing.name}: {engine.warning}", "", engine.cure)


def _tokenizer(pairing: Pairing) -> Findings:
    from llm_specdec.backends.served import tokenizers

    assert pairing.served
    if not (named := pairing.served.tokenizer):
        return
    try:
        tokenizers.load(named)
    except SpecdecError as error:
        yield Finding(
            "broken",
            f"{pairing.name}: tokenizer: {error}",
            "a prompt cannot be counted, where context is set, or its thinking be worded",
            anew.command(pairing),
        )
    else:
        yield Finding("ok", f"{pairing.name}: the tokenizer of {named} loads")


def _key(pairing: Pairing) -> str:
    """What mends a key that is missing, wrong, or must not be sent."""
    from llm_specdec.backends.served import keys

    served = pairing.served
    assert served
    if served.key is None:
        return anew.command(pairing, key="NAME")
    try:
        keys.check(served)
    except UsageError:
        return anew.command(replace(pairing, served=replace(served, insecure=True)))
    return shlex.join(["llm", "keys", "set", served.key])
