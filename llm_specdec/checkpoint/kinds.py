"""What a folder holds, told by its files: a target, a drafter, or no model at all."""

from pathlib import Path
from typing import Any, Literal

from llm_specdec.checkpoint import heads
from llm_specdec.checkpoint.files import (
    Tensor,
    listing,
    read_config,
    read_tensors,
    sidecar_files,
    weight_files,
)

Kind = Literal[
    "target", "dflash", "mtp-sidecar", "foreign-drafter", "adapter", "gguf", "pytorch", "empty",
    "unknown",
]  # fmt: skip

KIND_WORDS: dict[Kind, str] = {
    "target": "a language model",
    "dflash": "a DFlash drafter",
    "mtp-sidecar": "a prediction head without its target",
    "foreign-drafter": "a drafter in a layout that nothing here can run",
    "adapter": "an adapter, not a model: fuse it into its base first",
    "gguf": "GGUF files, not MLX weights: use a safetensors build of the model",
    "pytorch": "PyTorch files, not safetensors: convert it with `mlx_lm.convert`",
    "empty": "an empty folder",
    "unknown": "no model: config.json or safetensors weights are missing",
}


def kind_of(folder: Path) -> Kind:
    """What a folder holds, told by its files. Raises CheckpointError on damaged ones."""
    return contents(Path(folder))[0]


def contents(folder: Path) -> tuple[Kind, dict[str, Tensor]]:
    """The kind of a folder, and all its tensors, those of heads beside the weights included."""
    names = {path.name for path in listing(folder)}
    if not names:
        return "empty", {}
    tensors = read_tensors(weight_files(folder))
    beside = read_tensors(sidecar_files(folder))
    if tensors:
        kind = _kind_of_tensors(tensors, read_config(folder / "config.json"))
        nameless = kind == "target" and "config.json" not in names
        return "unknown" if nameless else kind, {**tensors, **beside}
    return "mtp-sidecar" if beside else _kind_of_names(names), beside


def _kind_of_names(names: set[str]) -> Kind:
    if any("adapter" in name for name in names):
        return "adapter"
    if any(name.endswith(".gguf") for name in names):
        return "gguf"
    if any(name.endswith((".bin", ".pt", ".pth")) for name in names):
        return "pytorch"
    return "unknown"


def _kind_of_tensors(tensors: dict[str, Tensor], config: dict[str, Any]) -> Kind:
    head = heads.find(tensors)
    if head and len(head.tensors) == len(tensors):
        return "mtp-sidecar"
    if "hidden_norm.weight" in tensors and "fc.weight" in tensors:
        return "dflash"
    if "d2t" in tensors or "speculators_model_type" in config or _is_assistant(config):
        return "foreign-drafter"
    return "target"


def _is_assistant(config: dict[str, Any]) -> bool:
    architecture = " ".join(map(str, config.get("architectures") or []))
    return str(config.get("model_type")).endswith("_assistant") or "eagle" in architecture.lower()
