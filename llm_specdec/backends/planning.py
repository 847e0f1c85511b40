"""A pairing as it will run, in plain data: files, lane, settings, seed, costs, caches.

All of it is settled before anything is loaded, so that a plan means the same in any process.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from llm_specdec import hub, receipts
from llm_specdec.checkpoint import Positions
from llm_specdec.drafters.table import KINDS, NONE, words
from llm_specdec.errors import UsageError
from llm_specdec.pairings.registry import Pairing, Served
from llm_specdec.receipts import SERVED, Lane
from llm_specdec.settings import Resolution, seconds

WORTH_MEASURING = 64  # tokens; a shorter answer is over before measured costs could help


@dataclass(frozen=True)
class Plan:
    """What will run. `target` and `drafter` are folders, `drafter` only of a drafter that has
    files of its own; `reads` as the registry's head table says.

    settings: the value of every setting; sources: where it was said, in words for messages.
    costs: whether what rounds cost is asked for and, where nothing is stored, measured before
    the answer or afterwards.
    prior: (accepted, drafted) by position in a draft, of earlier runs.
    keeps_on_disk: whether states of this prompt may be written to the prefix cache's folder.
    keep_alive: seconds that a resident worker keeps the weights afterwards; 0: there is none,
    None: for ever.
    served: the server that runs it; `target` is then a name there.
    """

    model_id: str
    pairing: str
    profile: str | None
    lane: Lane
    target: str
    drafter: str | None
    drafter_bits: int | None
    drafter_group_size: int | None
    reads: str
    settings: Mapping[str, Any]
    sources: Mapping[str, str]
    deviations: tuple[Mapping[str, Any], ...]
    seed: int
    costs: Literal["none", "stored", "measured", "afterwards"] = "none"
    prior: tuple[tuple[int, int], ...] = ()
    keeps_on_disk: bool = False
    keep_alive: float | None = 0.0
    served: Served | None = None

    def context(self, positions: Positions) -> int:
        """Tokens that prompt and answer may have together, of a model with these positions.

        Raises UsageError where the setting asks for positions that there are not.
        """
        context: int | None = self.settings["context"]
        most = positions.context
        if context and context > most and positions.hard:
            raise UsageError(
                f"context {context} ({self.sources['context']}) is more than the {most} positions "
                f"that the model has: set at most {most}"
            )
        return context or most


def plan(
    pairing: Pairing,
    profile: str | None,
    resolution: Resolution,
    model_id: str = "",
    log: Path | None = None,
    keeps_on_disk: bool = False,
    keep_alive: str = "0",
) -> Plan:
    """What a prompt of this pairing and profile will run.

    log: llm's log, whose runs are the prior; not with a seed of the user's own, whose text must
    not depend on what was logged before. keep_alive: where no layer sets it.
    Raises HubError where files are missing.
    """
    lane, values = lane_of(pairing, resolution), resolution.values
    if pairing.served:
        keep_alive = "0"
    drafts, seed = lane.state == "drafting", values["seed"]
    external = lane.kind != NONE.name and pairing.drafter not in words()
    asks_log = log is not None and drafts and seed is None
    return Plan(
        model_id=model_id or pairing.name,
        pairing=pairing.name,
        profile=profile,
        lane=lane,
        target=pairing.target if pairing.served else _folder(pairing.target),
        drafter=_folder(pairing.drafter) if external else None,
        drafter_bits=pairing.drafter_bits,
        drafter_group_size=pairing.drafter_group_size,
        reads=pairing.head.get("reads", ""),
        settings=values,
        sources={name: setting.source for name, setting in resolution.settings.items()},
        deviations=tuple(resolution.deviations),
        seed=secrets.randbits(63) if seed is None else seed,
        costs=_costs(values) if drafts else "none",
        prior=tuple(receipts.acceptance(log, pairing.name)) if asks_log and log else (),
        keeps_on_disk=keeps_on_disk,
        keep_alive=seconds(values["keep_alive"] or keep_alive),
        served=pairing.served,
    )


def lane_of(pairing: Pairing, resolution: Resolution) -> Lane:
    """The lane that a run starts in: drafting, or off and why. Whether a server drafts shows
    once it has answered."""
    if pairing.served:
        return Lane(SERVED, None, f"{pairing.served.engine} at {pairing.served.url}")
    draft = resolution.settings["draft"]
    if not draft.value:
        return Lane(NONE.name, "off", f"draft is false ({draft.source})")
    if not pairing.enabled:
        reason = pairing.disabled_reason or "switched off by hand"
        return Lane(NONE.name, "off", f"pairing disabled: {reason}")
    kind = KINDS[pairing.kind]
    if kind is NONE:
        return Lane(NONE.name, "off", "the pairing has no drafter")
    said = kind.lane_reason(pairing.drafter)
    tokens = resolution.values["draft_tokens"]
    return Lane(kind.name, "drafting", f"{said}, draft tokens {tokens}")


def effective(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in effect on an answer, those that are not set left out."""
    return {
        name: value
        for name, value in values.items()
        if (value or value == 0) and name != "keep_alive"
    }


def _costs(values: Mapping[str, Any]) -> Literal["none", "stored", "measured", "afterwards"]:
    """Costs are for a draft length that adapts to them. Where they are not known, they are
    measured after the answer, if it is not a short one, for those to come; with a seed of the
    user's own before it, as the text must not depend on what ran before."""
    if values["draft_tokens"] != "auto":
        return "none"
    if values["seed"] is not None:
        return "measured"
    longest = values["max_tokens"]
    return "afterwards" if longest is None or longest >= WORTH_MEASURING else "stored"


def _folder(path_or_repo: str) -> str:
    return str(hub.locate(path_or_repo, offline=True).absolute())
