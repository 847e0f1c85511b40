"""The anatomy of one folder: all that its files say, in figures."""

import importlib.util
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from llm_specdec.checkpoint import agreement, caches, heads, weights
from llm_specdec.checkpoint import tokenizer as tokenizers
from llm_specdec.checkpoint.dflash import DFlash, read_dflash
from llm_specdec.checkpoint.files import (
    Tensor,
    check_config,
    read_config,
    read_json,
    unknown_shards,
)
from llm_specdec.checkpoint.kinds import KIND_WORDS, Kind, contents
from llm_specdec.errors import CheckpointError

# Other names that mlx-lm 0.32 gives a model file (its MODEL_REMAPPING).
_SAME_AS = {
    "mistral": "llama", "llava": "mistral3", "phi-msft": "phixtral", "falcon_mamba": "mamba",
    "joyai_llm_flash": "deepseek_v3", "kimi_k2": "deepseek_v3", "qwen2_5_vl": "qwen2_vl",
    "minimax_m2": "minimax", "iquestcoder": "llama", "xverse": "llama",
    "gemma4_unified": "gemma4", "deepseek_v41_text": "deepseek_v41",
}  # fmt: skip


@dataclass(frozen=True)
class Anatomy:
    """What the files say a checkpoint is. Sizes in bytes, context in tokens."""

    folder: Path
    kind: Kind
    model_type: str
    architecture: str
    runnable: bool  # mlx-lm has a model file for this type
    own_code: str | None  # the Python file or class it would need, never run here
    parameters: int
    dtype: str
    quantisation: weights.Quantisation | None
    hidden_size: int
    layers: int
    vocab_size: int  # as padded in the config; what counts is the tokenizer
    tied_embeddings: bool
    head: heads.Head | None
    head_promised: int  # head layers that the config speaks of
    head_width: int  # elements per token in the head's own cache
    caches: tuple[caches.CacheShape, ...] | None  # None: decided when loaded
    native_context: int | None
    weight_bytes: int  # in memory as the language model, without head
    pass_bytes: int  # read by one decoding pass
    output_bytes: int  # of these, the output head
    dflash: DFlash | None = None
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def tokenizer(self) -> tokenizers.TokenizerFacts | None:
        """Read when first asked for: the file can be large. Raises CheckpointError."""
        return tokenizers.facts(self.folder)

    @cached_property
    def kv_bytes_per_token(self) -> int | None:
        """Growth per token of a long run: sliding layers have stopped growing by then."""
        if self.caches is None:
            return None
        size = weights.element_bytes(self.dtype)
        return sum(layer.width * size for layer in self.caches if layer.window is None)

    def kv_bytes(self, tokens: int, kv_bits: int | None = None) -> int | None:
        """Cache of one sequence of that many tokens, recurrent state included.

        kv_bits quantises full layers only, in groups of 64 with two scales each, as mlx-lm
        does. None where the cache kinds are decided when loaded.
        """
        if self.caches is None:
            return None
        size = weights.element_bytes(self.dtype)
        packed = kv_bits / 8 + 2 * size / 64 if kv_bits else size
        return round(
            sum(
                layer.elements(tokens) * (packed if layer.window is None else size)
                + layer.fixed_bytes
                for layer in self.caches
            )
        )


def read(folder: Path) -> Anatomy:
    """The anatomy of a target or drafter, from its files alone, without loading a weight.

    Raises CheckpointError when the folder holds no such model or a file is damaged.
    """
    folder = Path(folder)
    kind, everything = contents(folder)
    if kind in ("adapter", "gguf", "pytorch", "empty", "unknown"):
        raise CheckpointError(f"{folder}: {KIND_WORDS[kind]}")
    path = folder / "config.json"
    config = read_config(path)
    text = _text_config(config)
    check_config(path, text)
    _agree(path, agreement.counts(text, everything))
    head = heads.find(everything)
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    trunk = _trunk(everything, head, tied)
    dtype = weights.dtype(trunk or everything, text)
    model_type = str(config.get("model_type") or "")
    if kind == "target" and _runnable(model_type) and model_type not in caches.OTHERWISE:
        _agree(path, agreement.problem(config, text, trunk))
    found = _caches(kind, model_type, text, trunk, weights.element_bytes(dtype))
    layers = text.get("num_hidden_layers") or len(found or ())
    return Anatomy(
        folder=folder,
        kind=kind,
        model_type=model_type,
        architecture=str((config.get("architectures") or [""])[0]),
        runnable=_runnable(model_type),
        own_code=_own_code(config, folder),
        parameters=weights.parameters(config, trunk),
        dtype=dtype,
        quantisation=weights.quantisation(config, everything),
        hidden_size=text.get("hidden_size") or 0,
        layers=layers,
        vocab_size=text.get("vocab_size") or 0,
        tied_embeddings=tied,
        head=head,
        head_promised=heads.promised(text) or heads.promised(config),
        head_width=_head_width(text, everything, head),
        caches=found,
        native_context=text.get("max_position_embeddings"),
        weight_bytes=sum(tensor.nbytes for tensor in trunk.values()),
        pass_bytes=weights.pass_bytes(text, trunk, tied),
        output_bytes=weights.output_bytes(trunk, tied),
        dflash=read_dflash(path, config, everything) if kind == "dflash" else None,
        notes=_notes(folder, text, layers, found, everything),
    )


def _agree(path: Path, problem: str) -> None:
    if problem:
        raise CheckpointError(f"{path}: {problem}: take a whole build of one model")


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    keys = ("text_config", "llm_config", "transformer_layer_config")  # the last: `speculators`
    nested = next((config[k] for k in keys if k in config), None)
    return {**config, **nested} if isinstance(nested, dict) else config


def _trunk(tensors: dict[str, Tensor], head: heads.Head | None, tied: bool) -> dict[str, Tensor]:
    """The tensors that decoding keeps in memory: no head, no vision, no second output."""
    skip = set(head.tensors) if head else set()
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in skip and weights.is_text(name) and not (tied and "lm_head." in name)
    }


def _caches(
    kind: Kind, model_type: str, text: dict[str, Any], trunk: dict[str, Tensor], size: int
) -> tuple[caches.CacheShape, ...] | None:
    if kind == "dflash":
        return caches.layers("llama", text, trunk, size)  # keys and values by layer_types
    if kind != "target" or not _runnable(model_type):
        return None
    return caches.layers(_SAME_AS.get(model_type, model_type), text, trunk, size)


def _head_width(text: dict[str, Any], tensors: dict[str, Tensor], head: heads.Head | None) -> int:
    own = {name: tensors[name] for name in head.tensors} if head else {}
    return sum(layer.width for layer in caches.layers("", text, own, 2) or ())


def _runnable(model_type: str) -> bool:
    """Does mlx-lm have a model file for the type? Looked up on disk, nothing is imported."""
    name = _SAME_AS.get(model_type, model_type)
    spec = importlib.util.find_spec("mlx_lm")
    if not name.replace("_", "a").replace("-", "a").isalnum() or spec is None:
        return False
    places = spec.submodule_search_locations or []
    return any((Path(place) / "models" / f"{name}.py").is_file() for place in places)


def _own_code(config: dict[str, Any], folder: Path) -> str | None:
    """The code it needs: mlx-lm's model_file, or auto_map where mlx-lm has no such type."""
    if isinstance(config.get("model_file"), str):
        return str(config["model_file"])
    mapped = config.get("auto_map")
    if isinstance(mapped, dict) and not _runnable(str(config.get("model_type") or "")):
        return str(mapped.get("AutoModelForCausalLM") or next(iter(mapped.values()), "auto_map"))
    mapped = read_json(folder / "tokenizer_config.json").get("auto_map")
    if isinstance(mapped, dict) and not (folder / "tokenizer.json").exists():
        return f"{mapped.get('AutoTokenizer')}"
    return None


def _notes(
    folder: Path,
    text: dict[str, Any],
    layers: int,
    found: tuple[caches.CacheShape, ...] | None,
    tensors: dict[str, Tensor],
) -> tuple[str, ...]:
    """Where the config says one thing and the files another, and what is left unused."""
    notes = []
    if not all(map(weights.is_text, tensors)):
        notes.append("text alone is read: its image or audio part stays on disk")
    if found is not None and len(found) != layers:
        notes.append(f"the config says {layers} layers, the files hold {len(found)}")
    if absent := unknown_shards(folder):
        notes.append(
            f"the index names {len(absent)} files that are not there (first {absent[0]}) "
            "and is left aside: it is another build's"
        )
    stray = {tensor.file.name for tensor in tensors.values() if not tensor.nbytes}
    if stray:
        notes.append(f"empty tensors in {', '.join(sorted(stray))}")
    return tuple(notes)
