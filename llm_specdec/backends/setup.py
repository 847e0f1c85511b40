"""A pairing as it will run: settings in effect, lane, weights, sampling; its runs as receipts.

The seam to the engine that the llm model and the bench share; the engine is imported inside
functions, so nothing heavy is loaded before something runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llm_specdec import __version__, receipts, settings
from llm_specdec.backends import costs
from llm_specdec.console.notices import warn
from llm_specdec.errors import UsageError
from llm_specdec.pairings.registry import Pairing

if TYPE_CHECKING:
    from llm_specdec.engine.costs import Costs
    from llm_specdec.engine.loop import Run
    from llm_specdec.engine.phases import PhaseTimer
    from llm_specdec.engine.request import Request
    from llm_specdec.engine.sampling.logits_processors import Sampling
    from llm_specdec.engine.session import Session, Weights

WORTH_MEASURING = 64  # tokens; a shorter answer is over before measured costs could help


@dataclass(frozen=True)
class Setup:
    """A pairing, a profile or None, and what every setting is for them."""

    pairing: Pairing
    profile: str | None
    resolution: settings.Resolution

    @property
    def values(self) -> dict[str, Any]:
        return self.resolution.values

    @cached_property
    def lane(self) -> receipts.Lane:
        """The lane that a run starts in: drafting, or off and why."""
        pairing, draft = self.pairing, self.resolution.settings["draft"]
        if not draft.value:
            return receipts.Lane("none", "off", f"draft is false ({draft.source})")
        if not pairing.enabled:
            reason = pairing.disabled_reason or "switched off by hand"
            return receipts.Lane("none", "off", f"pairing disabled: {reason}")
        if pairing.kind == "none":
            return receipts.Lane("none", "off", "the pairing has no drafter")
        said = {
            "mtp": "the target's own head",
            "lookup": "text repeated from prompt and answer",
        }.get(pairing.drafter, f"drafter {pairing.drafter}")
        tokens = self.values["draft_tokens"]
        return receipts.Lane(pairing.kind, "drafting", f"{said}, draft tokens {tokens}")

    def context(self, native: int) -> int:
        """Tokens that prompt and answer may have together, of a model made for `native`.

        Raises UsageError where the setting asks for more.
        """
        found = self.resolution.settings["context"]
        if found.value and found.value > native:
            raise UsageError(
                f"context {found.value} ({found.source}) is more than the {native} tokens that "
                f"the model was made for: set at most {native}"
            )
        return found.value or native

    def weights(self) -> "Weights":
        """What the lane has in memory. Raises HubError where files are missing."""
        from llm_specdec import hub
        from llm_specdec.engine.session import Weights

        kind, pairing = self.lane.kind, self.pairing
        external = kind in ("model", "dflash")
        return Weights(
            target=hub.locate(pairing.target, offline=True),
            kind=kind,
            drafter=hub.locate(pairing.drafter, offline=True) if external else None,
            drafter_bits=pairing.drafter_bits,
            drafter_group_size=pairing.drafter_group_size,
            reads=pairing.head.get("reads", ""),
        )

    def admit(self, weights: "Weights", tokens: int) -> None:
        """Raises ResourceError where a run of `tokens` in all would not fit into memory."""
        from llm_specdec import memory
        from llm_specdec.engine.hardware.device import memory_in_use

        memory.admit(
            weights.target,
            weights.drafter,
            tokens,
            kv_bits=self.values["kv_bits"],
            drafter_bits=weights.drafter_bits,
            drafter_group_size=weights.drafter_group_size,
            head=weights.kind == "mtp",
            resident=memory_in_use(),
        )

    def costs(
        self,
        loaded: "Session",
        tell: Callable[[str], None] = lambda text: None,
        anew: bool = False,
    ) -> "Costs | None":
        """What rounds cost here, where the draft length adapts to it; measured on first use,
        unless the answer is too short to win those seconds back; with a seed of the user's own
        always, as its text must not depend on what ran before."""
        if self.lane.state != "drafting" or self.values["draft_tokens"] != "auto":
            return None
        longest, seeded = self.values["max_tokens"], self.values["seed"] is not None
        worth = anew or seeded or longest is None or longest >= WORTH_MEASURING
        return costs.costs_for(loaded, self.values["kv_bits"], tell=tell, anew=anew, measure=worth)

    def measured(
        self,
        run: "Run",
        timer: "PhaseTimer",
        request: "Request",
        load_ms: float,
        reasoning_tokens: int = 0,
    ) -> receipts.Run:
        """A run that ended, however it ended, in plain numbers."""
        from llm_specdec.engine.hardware.device import peak_memory
        from llm_specdec.engine.phases import SYNC_EVERY

        stats, seconds = run.stats, timer.phases()
        return receipts.Run(
            version=__version__,
            pairing=self.pairing.name,
            profile=self.profile,
            lane=self._lane_of(run),
            prompt_tokens=len(request.prompt),
            cached_tokens=run.cached,
            reasoning_tokens=reasoning_tokens,
            completion_ids=stats.completion,
            ttft_ms=1000 * (timer.wall if timer.ttft is None else timer.ttft),
            wall_ms=1000 * timer.wall,
            finish_reason=stats.finish_reason,
            phases_ms={"load": load_ms, **{name: 1000 * s for name, s in seconds.items()}},
            rounds=stats.rounds,
            drafted=stats.drafted,
            accepted=stats.accepted,
            by_length=_dense(stats.lengths),
            by_position=_dense(stats.positions),
            by_source=stats.by_source,
            synced_rounds=timer.synced_rounds,
            sync_every=SYNC_EVERY,
            sampling=effective(self.values)
            | {"seed": request.seed, "max_tokens": request.max_tokens},
            deviations=self.resolution.deviations,
            peak_memory_bytes=peak_memory(),
        )

    def _lane_of(self, run: "Run") -> receipts.Lane:
        """The lane as it ended: the policy may have parked the drafter."""
        kind, state, reason = self.lane.kind, self.lane.state, self.lane.reason
        if run.drafter is None:
            return self.lane
        if run.policy.state == "parked":
            return receipts.Lane(kind, "parked", "drafting would be slower at its acceptance")
        if self.values["draft_tokens"] == "auto" and not run.policy.adapts:
            unmeasured = f"costs not measured, {run.policy.longest} instead"
            return receipts.Lane(kind, state, f"{reason} ({unmeasured})")
        return self.lane


def load(weights: "Weights") -> "Session":
    """The weights, loaded once a process. Warns of a BLAS that the user named and that is not
    used. Raises CheckpointError, UnsupportedError."""
    from llm_specdec.engine import session
    from llm_specdec.engine.hardware import blas

    if why := blas.unused():
        warn(why)
    return session.load(weights)


def effective(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in effect, those that are not set left out."""
    return {name: value for name, value in values.items() if value or value == 0}


def sampling(values: Mapping[str, Any]) -> "Sampling":
    """How the engine turns logits into tokens under these settings."""
    from llm_specdec.engine.sampling.logits_processors import Sampling

    return Sampling(
        temperature=values["temperature"],
        top_p=values["top_p"],
        top_k=values["top_k"],
        min_p=values["min_p"],
        repetition_penalty=values["repetition_penalty"],
        presence_penalty=values["presence_penalty"],
        frequency_penalty=values["frequency_penalty"],
        penalty_scope=values["penalty_scope"],
        logit_bias={int(token): bias for token, bias in values["logit_bias"].items()},
    )


def _dense(counter: Mapping[int, int]) -> list[int]:
    return [counter.get(i, 0) for i in range(max(counter) + 1)] if counter else []
