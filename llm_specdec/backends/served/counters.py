"""What a server counts over all its requests: `/metrics`, in Prometheus' text form.

vLLM, SGLang and llama-server (with `--metrics`) have it. Names as the servers write them.
"""

import re
from collections.abc import Mapping

import httpx2

from llm_specdec.backends.served import looking
from llm_specdec.pairings.registry import Served

WRITTEN = "written"  # tokens of all answers
_PREFIXES = {"vllm": "vllm", "sglang": "sglang", "llama-server": "llamacpp"}
_NAMES = {
    "generation_tokens_total": WRITTEN,
    "tokens_predicted_total": WRITTEN,
    "spec_decode_num_drafts_total": "rounds",
    "spec_decode_num_draft_tokens_total": "drafted",
    "spec_decode_num_accepted_tokens_total": "accepted",
}
_LINE = re.compile(r"(?P<prefix>\w+):(?P<name>\w+)(?:\{.*\})? (?P<value>[\d.eE+]+)$")


def read(served: Served) -> dict[str, int]:
    """written, rounds, drafted, accepted since the server started, as far as it tells."""
    if served.engine not in _PREFIXES:
        return {}
    try:
        with looking.client(served) as client:
            answer = looking.look(client, f"{served.root}/metrics")
    except httpx2.HTTPError:
        return {}
    return counted(served.engine, answer.text) if answer.status == 200 else {}


def counted(engine: str, text: str) -> dict[str, int]:
    """The counters in the text of `/metrics`, summed over their labels."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and match["prefix"] == _PREFIXES[engine] and (name := _NAMES.get(match["name"])):
            found[name] = found.get(name, 0) + round(float(match["value"]))
    return found


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was counted in between; nothing where the server was started anew meanwhile."""
    found = {name: after[name] - before[name] for name in before if name in after}
    return found if all(count >= 0 for count in found.values()) else {}
