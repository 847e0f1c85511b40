"""Which modules of a model own a recurrent state: those to run again after a rollback."""

import inspect
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import ArraysCache

from llm_specdec.engine.rollback.layer_caches import flat, receives
from llm_specdec.engine.taps import modules_of, observe
from llm_specdec.errors import UnsupportedError


def recurrent_modules_of(
    model: Module, probe: list[Any], setting: str | None
) -> dict[int, list[Module]]:
    """Which modules own the recurrent state of which layer cache: the innermost that are handed it.

    Found by building the graph of a two-token forward over `probe`, never evaluated. Raises
    UnsupportedError where `setting` makes that fail, and for a state that no module is handed.
    """
    caches = flat(probe)
    owners: dict[int, list[Module]] = {
        i: [] for i, c in enumerate(caches) if isinstance(c, ArraysCache)
    }

    def watch(module: Module) -> Callable[[], None]:
        def note(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            for i, modules in owners.items():
                # Inner calls end first: a module around an owner is not one itself.
                if receives(caches[i], args, kwargs) and not _around(module, modules):
                    modules.append(module)

        return observe(module, note)

    removers = [watch(m) for m in modules_of(model) if owners and _takes_cache(m)]
    try:
        model(mx.array([[0, 0]]), cache=probe)
    except (ValueError, RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        if not setting:
            raise
        raise UnsupportedError(
            f"{setting} does not work with this target ({error}): leave it unset"
        ) from None
    finally:
        for remove in removers:
            remove()
    if missing := [i for i, modules in owners.items() if not modules]:
        raise UnsupportedError(
            f"this target keeps an {type(caches[missing[0]]).__name__} in a way that cannot be "
            "rolled back after a rejected draft token: use another target"
        )
    return owners


def _takes_cache(module: Module) -> bool:
    return "cache" in inspect.signature(type(module).__call__).parameters


def _around(module: Module, modules: list[Module]) -> bool:
    inside = {id(m) for m in modules_of(module)}
    return any(id(m) in inside for m in modules)
