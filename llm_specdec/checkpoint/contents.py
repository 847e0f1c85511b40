"""What lies in a checkpoint's folder: config, tensors by name, and what it is if no model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from llm_specdec.checkpoint.files import (
    Tensor,
    check_config,
    listing,
    read_config,
    read_tensors,
    sidecar_files,
    weight_files,
)

Form = Literal["model", "adapter", "gguf", "pytorch", "weightless", "empty", "unknown"]

NO_MODEL: dict[Form, str] = {
    "adapter": "an adapter, not a model: fuse it into its base first",
    "gguf": "GGUF files, not MLX weights: use a safetensors build of the model",
    "pytorch": "PyTorch files, not safetensors: take a build in safetensors, or convert it, a "
    "model with `mlx_lm.convert`, a drafter as docs/drafters.md says",
    "weightless": "no safetensors file beside config.json: take a build that has them (files of "
    "PyTorch are not downloaded), or convert it, a drafter as docs/drafters.md says",
    "empty": "an empty folder",
    "unknown": "no model: config.json or safetensors weights are missing",
}


@dataclass(frozen=True)
class CheckpointFiles:
    """A checkpoint's files as they are, headers read.

    config: {} without a config.json. tensors: all of them, those of `beside` included.
    beside: names of the tensors in files beside the weights, such as a prediction head's.
    """

    folder: Path
    form: Form
    config: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()

    @property
    def has_config(self) -> bool:
        return (self.folder / "config.json").exists()

    @property
    def text(self) -> dict[str, Any]:
        """The config of the language model, wherever it is nested."""
        keys = ("text_config", "llm_config", "transformer_layer_config")  # the last: `speculators`
        nested = next((self.config[key] for key in keys if key in self.config), None)
        return {**self.config, **nested} if isinstance(nested, dict) else self.config


def contents_of(folder: Path) -> CheckpointFiles:
    """Raises CheckpointError where a file is damaged."""
    folder = Path(folder)
    names = {path.name for path in listing(folder)}
    if not names:
        return CheckpointFiles(folder, "empty")
    weights = read_tensors(weight_files(folder))
    beside = read_tensors(sidecar_files(folder))
    tensors = {**weights, **beside}
    if not tensors:
        return CheckpointFiles(folder, _form_of(names))
    config = read_config(folder / "config.json")
    found = CheckpointFiles(folder, "model", config, tensors, frozenset(beside))
    check_config(folder / "config.json", found.text)
    return found


def _form_of(names: set[str]) -> Form:
    """What a folder without safetensors weights is."""
    if any("adapter" in name for name in names):
        return "adapter"
    if any(name.endswith(".gguf") for name in names):
        return "gguf"
    if any(name.endswith((".bin", ".pt", ".pth")) for name in names):
        return "pytorch"
    return "weightless" if "config.json" in names else "unknown"
