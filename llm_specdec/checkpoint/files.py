"""Reading a checkpoint's files: JSON and safetensors headers, never a weight.

A checkpoint is a stranger's: what is read is a regular file of a size that real ones have.
Every error is a CheckpointError of one line that names the file. Formats: safetensors
as https://github.com/huggingface/safetensors describes it (8 bytes little-endian header
length, JSON header, data).
"""

import itertools
import json
import os
import re
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from llm_specdec import files
from llm_specdec.errors import CheckpointError

# Bytes. Python needs up to thirty times as many for what is in a JSON text.
CONFIG_LIMIT = 8 << 20  # the largest known config.json is under 1 MB
TEMPLATE_LIMIT = 256 << 10  # the largest known chat template has 40 KB
TOKENIZER_LIMIT = 128 << 20  # the largest known tokenizer.json has 34 MB
INDEX_LIMIT = 64 << 20  # that of a model of 100,000 tensors has 10 MB
HEADER_LIMIT = 16 << 20  # a model of 100,000 tensors in one file has 12 MB

MOST_AXES = 32  # of a tensor
MOST = 2**40  # of layers, tokens and whatever a config counts

_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")
# What transformers and mlx-lm may open in a folder.
_OPENED = (".json", ".safetensors", ".jinja", ".txt", ".model", ".tiktoken")

# A file of the folder, or of a folder in it.
_INSIDE = re.compile(r"(?:[\w-][\w.-]*/)?[\w-][\w.-]*\.safetensors")

SIDECARS = ("mtp.safetensors", "mtp/weights.safetensors", "model-mtp.safetensors")


_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


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
    def rows(self) -> int:
        """0 for a single value, as for `columns`."""
        return self.shape[0] if self.shape else 0

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 0

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
        found = json.loads(files.read(path, limit), parse_constant=_no_nan)
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
        with files.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            if len(start) < 8:
                _fail(path, f"{size} bytes, too short for a safetensors file; fetch it again")
            (length,) = struct.unpack("<Q", start)
            if length > size - 8:
                _fail(
                    path,
                    f"the header claims {length:,} bytes and the file has {size:,}; "
                    "it is damaged or no safetensors file, fetch it again",
                )
            if length > HEADER_LIMIT:
                _fail(path, f"its header has {length:,} bytes, at most {HEADER_LIMIT:,} are read")
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
            whole = all(type(size) is int and 0 <= size < 2**63 for size in sizes)
            if not whole or len(shape) > MOST_AXES:
                raise ValueError(f"tensor {name} has impossible offsets or sizes")
            tensors[name] = Tensor(
                name, str(entry["dtype"]), shape, end - begin, path, data_start + begin
            )
        _check_layout(list(tensors.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _fail(path, f"the safetensors header is damaged ({error}); fetch it again")
    return tensors


def _check_layout(tensors: list[Tensor]) -> None:
    """Each tensor has the bytes that its shape takes, and shares none. Raises ValueError."""
    for tensor in tensors:
        bits = _BITS.get(tensor.dtype)
        if bits is None:
            raise ValueError(f"tensor {tensor.name} is of an unknown type, {tensor.dtype[:20]}")
        if tensor.elements * bits != 8 * tensor.nbytes:
            shape = "×".join(map(str, tensor.shape[:8])) or "one value"
            raise ValueError(
                f"tensor {tensor.name} has {tensor.nbytes:,} bytes, too few or too many for "
                f"{shape[:60]} in {tensor.dtype}"
            )
    filled = [tensor for tensor in tensors if tensor.nbytes]
    for one, other in itertools.pairwise(sorted(filled, key=lambda tensor: tensor.start)):
        if one.start + one.nbytes > other.start:
            raise ValueError(f"tensors {one.name} and {other.name} overlap")


def listing(folder: Path) -> list[Path]:
    """All entries of a checkpoint's folder, by name. Raises CheckpointError."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        if folder.is_file():
            _fail(folder, "is a file; name the folder that holds config.json and the weights")
        _os_error(folder, error)


def check_folder(folder: Path) -> None:
    """Nothing that a library would open in the folder is a pipe, a device or beyond all size.
    Raises CheckpointError."""
    for path in listing(folder):
        if path.suffix not in _OPENED or path.is_dir():
            continue
        try:
            files.size_of(path, sys.maxsize if path.suffix == ".safetensors" else TOKENIZER_LIMIT)
        except FileNotFoundError:  # a link to nothing: not there for anybody
            continue
        except OSError as error:
            _os_error(path, error)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that hold the model: `model*` as mlx-lm loads, else all there.

    Raises CheckpointError where tensors that the index names are missing. The files that it
    names may be: whoever quantises a model often keeps the index of the original.
    """
    found = [path for path in listing(folder) if path.name.endswith(".safetensors")]
    beside = {*SIDECARS, *_named_sidecar(folder)}
    weights = [path for path in found if path.name.startswith("model")] or [
        path for path in found if path.name not in beside and "adapter" not in path.name
    ]
    if problem := _incomplete(folder, weights):
        _fail(folder, f"{problem}; the download is incomplete, fetch the model again")
    return weights


def unknown_shards(folder: Path) -> list[str]:
    """The files that the index names and that are not there. Raises CheckpointError."""
    there = {path.name for path in listing(folder)}
    return sorted({*_index(folder).values()} - there)


def _index(folder: Path) -> dict[str, str]:
    """The index's own: tensor → file. {} where there is none."""
    path = folder / "model.safetensors.index.json"
    shards = read_json(path, INDEX_LIMIT).get("weight_map", {})
    if not isinstance(shards, dict):
        _fail(path, "has no weight_map object")
    return {name: str(file) for name, file in shards.items()}


def _incomplete(folder: Path, weights: list[Path]) -> str:
    """What is missing; "" where nothing is, or the index is that of another build."""
    names = {path.name for path in weights}
    index, absent = _index(folder), unknown_shards(folder)
    if absent and names & {*index.values()} and not index.keys() <= read_tensors(weights).keys():
        wanted = len({*index.values()})
        return f"{len(absent)} of {wanted} weight files are missing, first {absent[0]}"
    if (absent or not index) and (gap := _gap(names)):
        return f"{gap} is missing"
    return ""


def _gap(names: Iterable[str]) -> str:
    """The first file that is missing in a series such as a-00001-of-00002; "" where none is."""
    series: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if found := _SHARD.fullmatch(name):
            series.setdefault((found[1], found[3]), set()).add(int(found[2]))
    for (stem, count), there in series.items():
        if len(there) < int(count):
            first = next(n for n in itertools.count(1) if n not in there)
            return f"{stem}-{first:05}-of-{count}.safetensors"
    return ""


def sidecar_files(folder: Path) -> list[Path]:
    """Files beside the weights that may hold a prediction head. Raises CheckpointError."""
    names = dict.fromkeys([*SIDECARS, *_named_sidecar(folder)])
    return [folder / name for name in names if (folder / name).is_file()]


def _named_sidecar(folder: Path) -> list[str]:
    """The file that the config says the head is in. Raises CheckpointError."""
    path = folder / "config.json"
    extra = read_json(path).get("mlx_lm_extra_tensors")
    name = extra.get("mtp_file") if isinstance(extra, dict) else None
    if name is None:
        return []
    if not isinstance(name, str) or not _INSIDE.fullmatch(name):
        _fail(path, f"mtp_file is {_shown(name)!r}, a .safetensors file in the folder is needed")
    if not (folder / name).is_file():
        _fail(path, f"mtp_file is {name}, and there is no such file; fetch the model again")
    return [name]


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
            _fail(path, f"{key} is {_shown(value)!r}, {words} is needed")
        if isinstance(value, int) and value > MOST:
            _fail(path, f"{key} is {_shown(value)}, and no model has so many")


def _check_numbers(path: Path, config: dict[str, Any]) -> None:
    """No number anywhere that the libraries which read the config cannot compute with."""
    ahead = list(config.items())
    while ahead:
        key, value = ahead.pop()
        if isinstance(value, dict):
            ahead += value.items()
        elif isinstance(value, list):
            ahead += [(key, element) for element in value]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            _fail(path, f"{key} is {_shown(value)}, which fits into no computer's whole numbers")


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def read_config(path: Path) -> dict[str, Any]:
    """The object in a config.json, its keys checked; {} when there is none. Raises
    CheckpointError."""
    config = read_json(path)
    _check_numbers(path, config)
    check_config(path, config)
    return config
