"""Hidden states and inputs, captured from one loaded model.

The module to watch gets a class made on the spot: a subclass of its own class, with the same
name, whose `__call__` reports and calls `super().__call__`. Parameters, attributes and every
other instance stay as they were, and taking the last observer off restores the class.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import mlx.core as mx
from mlx.nn.layers.base import Module

from llm_specdec.engine.drafter import Tap
from llm_specdec.errors import UnsupportedError

# (positional arguments, keyword arguments, result) of one call
Observer = Callable[[tuple[Any, ...], dict[str, Any], Any], None]

NORM_NAMES = ("norm", "norm_f", "final_layernorm", "final_norm", "embedding_norm", "ln_f")


class _Observed:
    """Marks classes made here; `observers` belongs to one module, not to a kind of module."""

    observers: ClassVar[list[Observer]]


def observe(module: Module, observer: Observer) -> Callable[[], None]:
    """Call `observer` after each call of this one module; returns what takes it off again.

    Any number of observers may watch a module, and come off in any order.
    """
    cls = class_of(module)
    if type(module) is cls:
        module.__class__ = _observed_class(cls)
    observers: list[Observer] = type(module).observers  # type: ignore[attr-defined]
    observers.append(observer)

    def remove() -> None:
        if observer in observers:
            observers.remove(observer)
        if not observers:
            module.__class__ = class_of(module)

    return remove


def class_of(module: Module) -> type[Any]:
    """The module's own class, whether it is observed or not."""
    cls: type[Any] = type(module)
    return cls.__mro__[1] if issubclass(cls, _Observed) else cls


def _observed_class(cls: type[Module]) -> type[Module]:
    observers: list[Observer] = []

    @functools.wraps(cls.__call__)  # keeps the signature, too
    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        result = cls.__call__(self, *args, **kwargs)
        for observer in tuple(observers):
            observer(args, kwargs, result)
        return result

    namespace = {
        "__call__": call,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "observers": observers,
    }
    return type(cls.__name__, (cls, _Observed), namespace)


class Taps:
    """Keeps the hidden states that a drafter asks for, of the target's last forward.

    Raises UnsupportedError where the model has no such layer or norm.
    """

    def __init__(self, model: Module, taps: Sequence[Tap]) -> None:
        places = {tap: _place(model, tap) for tap in taps}
        self._taken: dict[Tap, mx.array] = {}
        self._removers = [observe(module, self._keeper(tap)) for tap, module in places.items()]

    def _keeper(self, tap: Tap) -> Observer:
        taken = self._taken

        def keep(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            states = args[0] if tap == "embedding" else result
            taken[tap] = states[0] if isinstance(states, tuple) else states

        return keep

    def take(self) -> dict[Tap, mx.array]:
        """Hidden states of the last forward, lazy: tap → (n, hidden_size). Gives them once."""
        hidden = {tap: _rows(states) for tap, states in self._taken.items()}
        self._taken.clear()
        return hidden

    def remove(self) -> None:
        """Leave the model as it was found. Safe to call again."""
        for remove in self._removers:
            remove()
        self._removers.clear()
        self._taken.clear()

    def __enter__(self) -> "Taps":
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _rows(states: mx.array) -> mx.array:
    if states.ndim != 3 or states.shape[0] != 1:
        raise UnsupportedError(
            f"this target's layers give {states.ndim}-dimensional states, which no drafter "
            "here can read: use --drafter lookup or a model drafter"
        )
    return states[0]


def _place(model: Module, tap: Tap) -> Module:
    layers = decoder_layers(model)
    if tap == "final_norm":
        return final_norm(model)
    if tap == "embedding":
        return layers[0]
    if not 0 <= tap < len(layers):
        raise UnsupportedError(
            f"the drafter reads layer {tap}, but this target has layers 0 to {len(layers) - 1}: "
            "use a drafter made for this target"
        )
    return layers[tap]


def decoder_layers(model: Module) -> list[Module]:
    """The target's decoder layers, first to last."""
    layers: list[Module] = list(model.layers)
    return layers


def modules_of(model: Module) -> list[Module]:
    """The model and every module in it."""
    return [module for _, module in model.named_modules()]


def evaluate(model: Module) -> None:
    """Compute all that a model holds now, on this thread: parameters, and constants that are
    none, such as scaled rope frequencies. What stays lazy fails on any other thread."""
    mx.eval([v for m in modules_of(model) for v in dict.values(m) if isinstance(v, mx.array)])


def trunk(model: Module) -> Module:
    """The module that holds the decoder layers: everything but the output matrix."""
    first = decoder_layers(model)[0]
    for module in modules_of(model):
        for child in dict.values(module):
            if isinstance(child, list) and any(layer is first for layer in child):
                return module
    raise UnsupportedError(f"no decoder layers were found in {type(model).__module__}")


def final_norm(model: Module) -> Module:
    """The norm between the last decoder layer and the output matrix."""
    holder = trunk(model)
    for name in NORM_NAMES:
        if isinstance(module := holder.get(name), Module):
            return module
    raise UnsupportedError(
        f"no final norm was found in {type(holder).__module__}: its hidden states cannot be read"
    )
