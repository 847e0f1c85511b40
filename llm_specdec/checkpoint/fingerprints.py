"""A checkpoint's fingerprint: changes when its weights, config or tokenizer do."""

import hashlib
import json
from pathlib import Path

from llm_specdec import files
from llm_specdec.checkpoint.files import (
    TOKENIZER_LIMIT,
    Tensor,
    read_tensors,
    sidecar_files,
    weight_files,
)
from llm_specdec.errors import CheckpointError

_SAMPLES = 2048  # tensors whose bytes a fingerprint samples, spread over the checkpoint
_SAMPLE_BYTES = 64


def fingerprint(folder: Path) -> str:
    """SHA-256 (hex) of what the checkpoint is: another build or other weights change it.

    Covers config.json, tokenizer.json, every safetensors header and size, and 64 bytes
    from the middle of up to 2,048 tensors. File dates and the folder's place play no part.
    """
    folder = Path(folder)
    digest = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        digest.update(name.encode() + _file_digest(folder / name))
    tensors: list[Tensor] = []
    for file in dict.fromkeys([*weight_files(folder), *sidecar_files(folder)]):
        found = sorted(read_tensors([file]).values(), key=lambda tensor: tensor.start)
        header = [(t.name, t.dtype, t.shape, t.start, t.nbytes) for t in found]
        digest.update(json.dumps([file.name, file.stat().st_size, header]).encode())
        tensors += found
    for tensor in tensors[:: -(-len(tensors) // _SAMPLES) or 1]:
        digest.update(_sample(tensor))
    return digest.hexdigest()


def _file_digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(files.read(path, TOKENIZER_LIMIT)).digest()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error


def _sample(tensor: Tensor) -> bytes:
    try:
        with files.opened(tensor.file) as file:
            file.seek(tensor.start + max(tensor.nbytes - _SAMPLE_BYTES, 0) // 2)
            return file.read(min(_SAMPLE_BYTES, tensor.nbytes))
    except OSError as error:
        raise CheckpointError(f"{tensor.file}: cannot be read ({error.strerror})") from error
