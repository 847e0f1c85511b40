"""mlx-lm without transformers, which takes longer to import than everything else together.

`mlx_lm/__init__.py` imports all of mlx-lm, and its `utils` and `tokenizer_utils` import
transformers and huggingface_hub. Here no more of it is imported than is used:

- The package stands in `sys.modules` before its own code ran. That code runs when somebody asks
  the package for a name, so `from mlx_lm import load` works as ever, and `mlx_lm.models.llama`
  is imported without it.
- `utils` and `tokenizer_utils` here are copies of those modules, from the same files, in which
  transformers and huggingface_hub are stand-ins. What needs the real ones is not called on them.

Where mlx-lm is put together in another way than this expects, its own modules take their place.
"""

import builtins
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Mapping
from typing import Any


class _Unexecuted(types.ModuleType):
    """A package whose code runs once a name is asked of it that it does not have yet."""

    _running = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        with _Unexecuted._running:
            if type(self) is _Unexecuted:
                self.__class__ = types.ModuleType  # type: ignore[assignment]
                spec = self.__spec__
                assert spec and spec.loader
                spec.loader.exec_module(self)
        return getattr(self, name)


class _NoTokenizer:
    """Stands in for transformers' tokenizer classes: to be a base, and to be registered."""

    apply_chat_template = None

    @classmethod
    def register(cls, *classes: Any, **more: Any) -> None:
        pass


def _defer(package: str) -> None:
    spec = importlib.util.find_spec(package)
    if package in sys.modules or spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Unexecuted
    sys.modules[package] = module


def _copy_of(name: str, stand_ins: Mapping[str, Any]) -> Any:
    """A module from the file of `name`, for which `stand_ins` are what it imports so named."""

    def importing(imported: str, *more: Any, **named: Any) -> Any:
        level = named.get("level", more[3] if len(more) > 3 else 0)
        stand_in = stand_ins.get("." * level + imported)
        return builtins.__import__(imported, *more, **named) if stand_in is None else stand_in

    spec = importlib.util.find_spec(name)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": importing}
    try:
        spec.loader.exec_module(module)
    except (AttributeError, ImportError, TypeError):
        return importlib.import_module(name)
    return module


def tokenizer_utils_with_transformers() -> Any:
    """mlx-lm's own."""
    return importlib.import_module("mlx_lm.tokenizer_utils")


_defer("mlx_lm")
os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"  # as the package's own code does
_transformers = types.SimpleNamespace(
    AutoTokenizer=_NoTokenizer,
    PreTrainedTokenizerFast=_NoTokenizer,
    PreTrainedTokenizerBase=_NoTokenizer,
)
tokenizer_utils = _copy_of(
    "mlx_lm.tokenizer_utils",
    {"transformers": _transformers, "transformers.tokenization_utils_base": _transformers},
)
utils = _copy_of(
    "mlx_lm.utils",
    {
        ".tokenizer_utils": tokenizer_utils,
        "huggingface_hub": types.SimpleNamespace(snapshot_download=None),
    },
)
