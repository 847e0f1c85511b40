"""Warm runs beside cold ones, for every family of the zoo and every kind of drafter."""

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map

from fixtures import dflash_checkpoints, dspark_checkpoints, parity, zoo
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.drafters.mtp.drafter import MTPDrafter
from llm_specdec.drafters.mtp.head import build
from llm_specdec.engine.drafter import Drafter, Draw, Proposal
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.states import Entry
from llm_specdec.engine.taps import decoder_layers
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.lookup import PrefixCache
from llm_specdec.prefix_cache.ram import RamTier

LANES = (
    "none", "lookup", "model", "mtp", "dflash", "sliding dflash", "dspark", "eagle3", "assistant",
)  # fmt: skip
SYSTEM, TURN = 20, 36  # positions kept at boundaries of PROMPT
PROMPT = [*range(20, 50), 11, 12, 13, 20, 21, 22, 7, 8, 9, 7, 8, 9]  # more than two windows
TOKENS = 12
LEAST = 8
HEADLESS = {"gemma3n", "gemma4", "lfm2", "mamba2", "nemotron_h", "falcon_h1", "rwkv7"}


class Noting:
    """Passes everything on to a drafter and notes what it proposes."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter, self.proposed = drafter, list[list[int]]()

    def __getattr__(self, name):
        return getattr(self._drafter, name)

    def propose(self, k: int, draw: Draw) -> Proposal:
        proposal = self._drafter.propose(k, draw)
        self.proposed.append([int(token) for token in proposal.tokens])
        return proposal


@dataclass(frozen=True)
class Outcome:
    """What a run wrote, drafted and counted; all but `cached` must be equal warm and cold."""

    tokens: list[int]
    proposed: list[list[int]]
    counts: tuple[object, ...]
    cached: int = field(compare=False)


def has(family: str, lane: str) -> bool:
    """Whether there is such a drafter for the family: no head is made for layers of some."""
    if lane == "mtp":
        return family not in HEADLESS
    return parity.runs(family, "dflash" if "dflash" in lane else lane)


@functools.cache
def drafter(family: str, lane: str) -> Drafter | None:
    """Random heads and block drafters, a blurred copy as the small model."""
    target = parity.target(family)
    if lane == "lookup":
        return LookupDrafter()
    if lane == "model":
        return ModelDrafter(parity.near_copy(family), zoo.VOCAB)
    if lane == "mtp":
        mx.random.seed(3)
        head = build(target.model, hidden_first=False)
        head.update(tree_map(_random, head.parameters()))
        mx.eval(head.parameters())
        return MTPDrafter(head, target, "final_norm")
    if lane == "dspark":
        ids = [0, len(decoder_layers(target.model)) - 1]
        return dspark_checkpoints.drafter_for(target, target_layer_ids=ids, markov_head_type="rnn")
    if lane == "eagle3":
        return parity.eagle3(family, "speculators")
    if lane == "assistant":
        return parity.assistant(clusters=True)
    if "dflash" in lane:
        ids = [0, len(decoder_layers(target.model)) - 1]
        if lane == "dflash":
            return dflash_checkpoints.drafter_for(target, 2, target_layer_ids=ids)
        kinds = ["sliding_attention"] * 2
        return dflash_checkpoints.drafter_for(
            target, 2, target_layer_ids=ids, layer_types=kinds, sliding_window=12
        )
    return None


def _random(weight: mx.array) -> mx.array:
    if weight.ndim < 2:
        return weight
    wide: mx.array = mx.random.normal(weight.shape) * (1.5 / weight.shape[-1] ** 0.5)
    return wide


class Kept(PrefixCache):
    """A prefix cache with one tier, whose entries can be looked at."""

    def __init__(self) -> None:
        self.ram = RamTier(1 << 30)
        super().__init__(Key({}), self.ram, least=LEAST)

    @property
    def entries(self) -> list[Entry]:
        return list(self.ram._entries.values())

    def changed(self, **changes: Any) -> "Kept":
        """One that takes its last entry for something else."""
        wrong = Kept()
        wrong.keep([replace(self.entries[-1], **changes)])
        return wrong


def prepared(
    family: str,
    lane: str,
    prompt: list[int],
    prefix: PrefixCache | None = None,
    kv_bits: int | None = None,
    sampling: Sampling | None = None,
    tokens: int = TOKENS,
) -> Run:
    target, found = parity.target(family), drafter(family, lane)
    cache = RollbackCache(target.model, kv_bits=kv_bits, kv_group_size=32, max_draft=3)
    request = Request(
        prompt,
        tokens,
        sampling=sampling or Sampling(),
        seed=5,
        boundaries=lambda: [SYSTEM + 1, TURN + 1],
    )
    policy, noting = Fixed(3 if found else 0), Noting(found) if found else None
    return Run(target, cache, noting, policy, request, PhaseTimer(), prefix_cache=prefix)


def outcome(run: Run) -> Outcome:
    tokens = [token for part in run.tokens() for token in part]
    stats = run.stats
    counts = (stats.rounds, stats.drafted, stats.accepted, stats.lengths, stats.positions)
    proposed = run.drafting.drafter.proposed if isinstance(run.drafting.drafter, Noting) else []
    return Outcome(tokens, proposed, (*counts, stats.finish_reason), run.outcome.cached)


def told(run: Run, prefix: PrefixCache) -> Outcome:
    """The run's outcome, its states put into the prefix cache."""
    found = outcome(run)
    prefix.keep(run.outcome.entries())
    return found
