"""Will it fit: weights and caches of target and drafter against this machine's memory.

need = estimate(target, drafter, tokens)     from anatomy, nothing loaded
check(need, budget())                        raises DoesNotFit with the figures
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from llm_specdec.checkpoint import Anatomy
from llm_specdec.console.sizes import gigabytes
from llm_specdec.drafters.fit import kind_for, target_problems
from llm_specdec.drafters.kind import DRAFTER_GROUP_SIZE
from llm_specdec.drafters.recognise import read
from llm_specdec.drafters.table import KINDS
from llm_specdec.errors import DoesNotFit, UnsupportedError

STEP = 256  # tokens; advice is rounded down to it


@dataclass(frozen=True)
class Need:
    """Bytes in memory for a run of `tokens` tokens (prompt and output)."""

    tokens: int
    target: int
    drafter: int
    target_cache: int
    drafter_cache: int

    @property
    def total(self) -> int:
        return self.target + self.drafter + self.target_cache + self.drafter_cache

    def __str__(self) -> str:
        parts = [f"target {gigabytes(self.target)}"]
        if self.drafter:
            parts.append(f"drafter {gigabytes(self.drafter)}")
        cache = gigabytes(self.target_cache + self.drafter_cache)
        return f"{gigabytes(self.total)} ({', '.join(parts)}, cache {cache})"


@dataclass(frozen=True)
class Budget:
    """Bytes that may be used, and what they are: the limit named in messages."""

    nbytes: int
    what: str


def estimate(
    target: Anatomy,
    drafter: Anatomy | None,
    tokens: int,
    *,
    lane: str | None = None,
    kv_bits: int | None = None,
    drafter_bits: int | None = None,
    drafter_group_size: int | None = None,
) -> Need:
    """What a run needs, from the files alone.

    lane: the kind of drafter that runs; None: whatever the files hold. drafter_group_size:
    DRAFTER_GROUP_SIZE where it is None. A cache that only loading can tell counts as nothing.
    """
    kind = KINDS[lane] if lane else kind_for(target, drafter)
    group_size = drafter_group_size or DRAFTER_GROUP_SIZE
    return Need(
        tokens,
        target=target.weight_bytes,
        drafter=kind.weight_bytes(target, drafter, drafter_bits, group_size),
        target_cache=target.kv_bytes(tokens, kv_bits) or 0,
        drafter_cache=kind.cache_bytes(target, drafter, tokens),
    )


def admit(
    target: Path,
    drafter: Path | None,
    tokens: int,
    *,
    lane: str,
    kv_bits: int | None = None,
    drafter_bits: int | None = None,
    drafter_group_size: int | None = None,
    loaded: tuple[bool, bool] = (False, False),
    makes_way: int = 0,
    in_use: int = 0,
) -> Need:
    """Refuse, before anything is loaded, a run that cannot fit or a target that is none.

    tokens: of prompt and output together. lane: the kind of drafter that runs.
    loaded: whether this process holds the target's weights, and the drafter's. makes_way: bytes
    that it gives back where they are needed. in_use: bytes that it holds in all, weights of
    other models among them, which stay.
    Raises DoesNotFit with the figures, UnsupportedError for a drafter run as a target or
    a model that needs its own code, CheckpointError for damaged files.
    """
    found = read(target)
    if problems := target_problems(found):
        raise UnsupportedError(problems[0])
    beside = read(drafter) if drafter else None

    def at(length: int) -> Need:
        return estimate(
            found,
            beside,
            length,
            lane=lane,
            kv_bits=kv_bits,
            drafter_bits=drafter_bits,
            drafter_group_size=drafter_group_size,
        )

    need = at(tokens)
    resident = need.target * loaded[0] + need.drafter * loaded[1] + makes_way
    check(need, budget(resident, max(in_use - resident, 0)), at)
    return need


def resident(
    target: Path, drafter: Path | None, lane: str, bits: int | None, group_size: int | None
) -> int:
    """Bytes of weights that target and drafter take together. Raises CheckpointError."""
    beside = read(drafter) if drafter else None
    need = estimate(
        read(target), beside, 0, lane=lane, drafter_bits=bits, drafter_group_size=group_size
    )
    return need.target + need.drafter


def budget(resident: int = 0, others: int = 0) -> Budget:
    """What this machine gives: Apple's recommended working set, a GPU's or free memory.

    resident: bytes that this process holds already and that the run will go on using, or that
    make way. others: bytes that it holds beside those, and keeps.
    Imports mlx only where it has a GPU. Raises ResourceError when it cannot be loaded there.
    """
    if not _has_gpu():
        return free(resident)
    from llm_specdec.engine.hardware import device

    limit = device.memory_limit(resident, others)
    if limit is None:
        return free(resident)
    if sys.platform != "darwin":
        return Budget(limit, "free GPU memory")
    beside = " beside the models in memory" if others else ""
    return Budget(limit, f"recommended working set{beside}")


def _has_gpu() -> bool:
    return sys.platform == "darwin" or _has_card()


@functools.cache
def _has_card() -> bool:
    """Whether mlx may compute on a CUDA card."""
    return any(map(_installed, ("mlx-cuda-12", "mlx-cuda-13")))


def _installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def free(resident: int = 0) -> Budget:
    """Free memory by the operating system's account; imports no mlx."""
    import psutil

    return Budget(psutil.virtual_memory().available + resident, "free memory")


def of_states(resident: int = 0) -> Budget:
    """What states of conversations may take where they lie: what is free of a CUDA card's memory,
    elsewhere of the machine's (on Apple silicon the two are one). resident: as for `budget`."""
    return budget(resident) if _has_card() else free(resident)


def total_for_states() -> int:
    """Bytes of the memory that states lie in."""
    import psutil

    if _has_card():
        from llm_specdec.engine.hardware import device

        if total := device.card_memory():
            return total
    return int(psutil.virtual_memory().total)


def largest_context(fits: Callable[[int], bool], most: int) -> int:
    """The largest number of tokens up to `most`, in steps of 256, for which `fits` holds."""
    low, high = 0, most // STEP
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * STEP) else (low, middle - 1)
    return most if most and fits(most) else low * STEP


def check(need: Need, limit: Budget, context: Callable[[int], Need] | None = None) -> None:
    """Refuse a run that cannot fit. `context` gives the need at another length, for advice.

    Raises DoesNotFit with the figures and what to lower.
    """
    if need.total <= limit.nbytes:
        return
    weights = need.target + need.drafter
    if weights > limit.nbytes:
        advice = "the weights alone do not fit: use a smaller or more strongly quantised build"
    else:
        advice = "shorten the prompt, lower max_tokens or set kv_bits 8"
        if context is not None:
            most = largest_context(lambda n: context(n).total <= limit.nbytes, need.tokens)
            if most:
                advice = f"{most:,} tokens would fit: lower context, max_tokens or kv_bits"
    raise DoesNotFit(
        f"{need.tokens:,} tokens need {need} and {limit.what} is {gigabytes(limit.nbytes)}; "
        f"{advice}",
        need.total - limit.nbytes,
    )
