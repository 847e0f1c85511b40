"""The anatomy of one folder: all that its files say, in figures."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from llm_specdec.checkpoint import agreement, caches, weights
from llm_specdec.checkpoint import tokenizer as tokenizers
from llm_specdec.checkpoint.contents import CheckpointFiles
from llm_specdec.checkpoint.files import Tensor, read_json, unknown_shards
from llm_specdec.checkpoint.positions import Positions, positions_of
from llm_specdec.checkpoint.vocabulary import Vocabulary, vocabulary_of
from llm_specdec.errors import CheckpointError

TARGET = "target"  # the kind of a folder that holds a language model

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
    kind: str  # TARGET, or what a drafter's kind calls such files
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
    caches: tuple[caches.CacheShape, ...] | None  # None: decided when loaded
    weight_bytes: int  # in memory as the language model, without what lies apart
    pass_bytes: int  # read by one decoding pass
    output_bytes: int  # of these, the output head
    notes: tuple[str, ...]
    contents: CheckpointFiles = field(repr=False, compare=False)
    parts: Mapping[str, Any] = field(default_factory=dict)  # of drafters in the files, by kind

    def problems(self) -> list[str]:
        """Why mlx-lm cannot run it; [] when it can."""
        if self.own_code:
            return [
                f"{self.folder.name} needs its own Python code ({self.own_code}), which is never "
                "run here: use a build whose model type mlx-lm has"
            ]
        if not self.runnable:
            return [f"mlx-lm has no model type {self.model_type!r}: update mlx-lm or use another"]
        return []

    @cached_property
    def positions(self) -> Positions:
        return positions_of(self.contents.text, self.contents.tensors)

    @cached_property
    def tokenizer(self) -> tokenizers.TokenizerFacts | None:
        """Raises CheckpointError."""
        special = tokenizers.special_ids(self.folder, self.vocabulary.ends)
        return tokenizers.facts(self.folder, self._tokenizer_file, special)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Raises CheckpointError."""
        tokens = tokenizers.token_ids(self.folder, self._tokenizer_file)
        return vocabulary_of(self.contents, tokens)

    @cached_property
    def _tokenizer_file(self) -> dict[str, Any]:
        """Read when first asked for: it can be large."""
        return tokenizers.read(self.folder)

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


def anatomy_of(
    contents: CheckpointFiles,
    kind: str = TARGET,
    apart: frozenset[str] = frozenset(),
    parts: Mapping[str, Any] = MappingProxyType({}),
    cached_as: str = "",
    counted: bool = True,
) -> Anatomy:
    """What a model is, from its files alone.

    apart: names of the tensors that are no part of the language model, a prediction head's.
    cached_as: the model type whose caches it has, where mlx-lm does not run it itself.
    counted: whether the config counts what is in these files.
    """
    config, text, everything = contents.config, contents.text, contents.tensors
    if counted:
        _agree(contents.folder, agreement.counts(text, everything))
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    trunk = _trunk(everything, apart, tied)
    dtype = weights.dtype(trunk or everything, text)
    model_type = str(config.get("model_type") or "")
    runnable = has_model(model_type)
    if kind == TARGET and runnable:
        if model_type not in caches.OTHERWISE:
            _agree(contents.folder, agreement.problem(config, text, trunk))
        cached_as = _SAME_AS.get(model_type, model_type)
    size = weights.element_bytes(dtype)
    found = caches.layers(cached_as, text, trunk, size) if cached_as else None
    layers = text.get("num_hidden_layers") or len(found or ())
    return Anatomy(
        folder=contents.folder,
        kind=kind,
        model_type=model_type,
        architecture=str((config.get("architectures") or [""])[0]),
        runnable=runnable,
        own_code=_own_code(config, contents.folder),
        parameters=weights.parameters(config, trunk),
        dtype=dtype,
        quantisation=weights.quantisation(config, everything),
        hidden_size=text.get("hidden_size") or 0,
        layers=layers,
        vocab_size=text.get("vocab_size") or 0,
        tied_embeddings=tied,
        caches=found,
        weight_bytes=sum(tensor.nbytes for tensor in trunk.values()),
        pass_bytes=weights.pass_bytes(text, trunk, tied),
        output_bytes=weights.output_bytes(trunk, tied),
        notes=_notes(contents.folder, text, layers, found, everything),
        contents=contents,
        parts=parts,
    )


def _agree(folder: Path, problem: str) -> None:
    if problem:
        path = folder / "config.json"
        raise CheckpointError(f"{path}: {problem}: take a whole build of one model")


def _trunk(tensors: dict[str, Tensor], apart: frozenset[str], tied: bool) -> dict[str, Tensor]:
    """The tensors that decoding keeps in memory: no head, no vision, no second output."""
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in apart and weights.is_text(name) and not (tied and "lm_head." in name)
    }


def has_model(model_type: str) -> bool:
    """Does mlx-lm have a model file for the type? Looked up on disk, nothing is imported."""
    name = _SAME_AS.get(model_type, model_type)
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or len(name) > 99 or not name.replace("_", "a").replace("-", "a").isalnum():
        return False
    places = spec.submodule_search_locations or []
    return any((Path(place) / "models" / f"{name}.py").is_file() for place in places)


def _own_code(config: dict[str, Any], folder: Path) -> str | None:
    """The code it needs: mlx-lm's model_file, or auto_map where mlx-lm has no such type."""
    if isinstance(config.get("model_file"), str):
        return str(config["model_file"])
    mapped = config.get("auto_map")
    if isinstance(mapped, dict) and not has_model(str(config.get("model_type") or "")):
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
