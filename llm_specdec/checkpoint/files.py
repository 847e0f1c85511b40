"""Reading a checkpoint's files: JSON and safetensors headers, never a weight.

Every error is a CheckpointError of one line that names the file. Formats: safetensors
as https://github.com/huggingface/safetensors describes it (8 bytes little-endian header
length, JSON header, data).
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from llm_specdec.errors import CheckpointError

CONFIG_LIMIT = 16 << 20  # bytes; the largest known config.json is under 1 MB
TOKENIZER_LIMIT = 256 << 20
HEADER_LIMIT = 100_000_000  # the format's own limit

SIDECARS = ("mtp.safetensors", "mtp/weights.safetensors", "model-mtp.safetensors")


@dataclass(frozen=True)
class Tensor:
    """One tensor as its file's header declares it; `start` is an offset in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    file: Path
    start: int

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


def _fail(path: Path, what: str) -> NoReturn:
    raise CheckpointError(f"{path}: {what}")


def _os_error(path: Path, error: OSError) -> NoReturn:
    _fail(path, f"cannot be read ({error.strerror or error})")


def _no_nan(text: str) -> float:
    if text == "NaN":
        raise ValueError("NaN is not a value that a model can be built from")
    return float(text.replace("Infinity", "inf"))  # real: "time_step_limit": [0.0, Infinity]


def read_json(path: Path, limit: int = CONFIG_LIMIT) -> dict[str, Any]:
    """The object in a JSON file; {} when there is no such file. Raises CheckpointError."""
    try:
        if not path.is_symlink() and not path.exists():
            return {}
        size = path.stat().st_size
        if size > limit:
            _fail(path, f"{size / 1e6:.0f} MB, more than any real one has ({limit / 1e6:.0f} MB)")
        found = json.loads(path.read_bytes(), parse_constant=_no_nan)
    except OSError as error:
        _os_error(path, error)
    except RecursionError:
        _fail(path, "is not a usable JSON file (nested too deeply)")
    except ValueError as error:  # JSON and UTF-8 errors are ValueErrors
        _fail(path, f"is not a usable JSON file ({error})")
    if not isinstance(found, dict):
        _fail(path, f"holds a JSON {type(found).__name__}, an object is needed")
    return found


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of one safetensors file. Raises CheckpointError when it is not whole."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if len(start) < 8:
                _fail(path, f"{size} bytes, too short for a safetensors file; fetch it again")
            (length,) = struct.unpack("<Q", start)
            if length > min(HEADER_LIMIT, size - 8):
                _fail(
                    path,
                    f"the header claims {length:,} bytes and the file has {size:,}; "
                    "it is damaged or no safetensors file, fetch it again",
                )
            raw = file.read(length)
    except OSError as error:
        _os_error(path, error)
    tensors = _parse_header(path, raw, data_start=8 + length)
    promised = max((t.start + t.nbytes for t in tensors.values()), default=8 + length)
    if promised > size:
        _fail(
            path,
            f"cut short: {size:,} bytes where its header promises {promised:,}; fetch it again",
        )
    return tensors


def _parse_header(path: Path, raw: bytes, data_start: int) -> dict[str, Tensor]:
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            shape = tuple(entry["shape"])
            sizes = (begin, end - begin, *shape)
            if not all(type(size) is int and size >= 0 for size in sizes):
                raise ValueError(f"tensor {name} has impossible offsets or sizes")
            tensors[name] = Tensor(
                name, str(entry["dtype"]), shape, end - begin, path, data_start + begin
            )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _fail(path, f"the safetensors header is damaged ({error}); fetch it again")
    return tensors


def listing(folder: Path) -> list[Path]:
    """All entries of a checkpoint's folder, by name. Raises CheckpointError."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        if folder.is_file():
            _fail(folder, "is a file; name the folder that holds config.json and the weights")
        _os_error(folder, error)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that hold the model: `model*` as mlx-lm loads, else all there.

    Raises CheckpointError when the index names files that are missing.
    """
    found = [path for path in listing(folder) if path.name.endswith(".safetensors")]
    files = [path for path in found if path.name.startswith("model")] or [
        path for path in found if path.name not in SIDECARS and "adapter" not in path.name
    ]
    index = read_json(folder / "model.safetensors.index.json", TOKENIZER_LIMIT)
    shards = index.get("weight_map", {})
    if not isinstance(shards, dict):
        _fail(folder / "model.safetensors.index.json", "has no weight_map object")
    wanted = sorted({str(name) for name in shards.values()})
    missing = [name for name in wanted if folder / name not in found]
    if missing:
        _fail(
            folder,
            f"{len(missing)} of {len(wanted)} weight files are missing, first {missing[0]}; "
            "the download is incomplete, fetch the model again",
        )
    return files


def sidecar_files(folder: Path) -> list[Path]:
    """Files beside the weights that may hold a prediction head."""
    return [folder / name for name in SIDECARS if (folder / name).is_file()]


def read_tensors(files: list[Path]) -> dict[str, Tensor]:
    return {name: tensor for path in files for name, tensor in read_header(path).items()}


_FORMS = {list: "a list", dict: "an object", str: "a text", int: "a whole number"}
_KEYS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("architectures", "layer_types", "hybrid_layer_pattern"), (list,)),
    **dict.fromkeys(
        (
            "text_config", "llm_config", "quantization", "quantization_config", "dflash_config",
            "auto_map", "transformer_layer_config",
        ),
        (dict,),
    ),
    **dict.fromkeys(("model_type", "dtype", "torch_dtype"), (str,)),
    "sliding_window_pattern": (int, str),
    **dict.fromkeys(
        (
            "hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings",
            "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window",
            "sliding_window_size", "attention_window_size", "window_size", "num_kv_shared_layers",
            "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "linear_key_head_dim",
            "num_experts", "n_routed_experts", "num_local_experts", "num_experts_per_tok",
            "mtp_num_hidden_layers", "num_nextn_predict_layers", "num_target_layers",
            "mask_token_id", "block_size",
        ),
        (int,),
    ),
}  # fmt: skip


def check_config(path: Path, config: dict[str, Any]) -> None:
    """Every key that is read here has the form it must have. Raises CheckpointError."""
    for key, forms in _KEYS.items():
        value = config.get(key)
        if value is None:
            continue
        fits = isinstance(value, forms) and not isinstance(value, bool)
        if not fits or (isinstance(value, int) and value < 0):
            words = " or ".join(_FORMS[form] for form in forms)
            _fail(path, f"{key} is {str(value)[:40]!r}, {words} is needed")


def read_config(path: Path) -> dict[str, Any]:
    """The object in a config.json, its keys checked; {} when there is none. Raises
    CheckpointError."""
    config = read_json(path)
    check_config(path, config)
    return config
