"""Write tiny checkpoints to disk: real safetensors files, no mlx."""

import json
import random
import struct
from pathlib import Path

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F8_E4M3": 1}

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


def write_safetensors(path, shapes, seed=0, sparse=False):
    """shapes: name → (dtype, shape). Bytes are random but reproducible.

    sparse: the file has its full size and no data, so that a 27B fits on any disk.
    """
    header, at, body = {}, 0, []
    source = random.Random(seed)
    for name, (dtype, shape) in shapes.items():
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        body.append(b"" if sparse else source.randbytes(size))
        at += size
    raw = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"".join(body))
    if sparse:
        with path.open("r+b") as file:
            file.truncate(8 + len(raw) + at)


def layer(prefix, hidden=64, kv=32, dtype="F16"):
    """One llama layer; kv is the width of keys alone."""
    return {
        f"{prefix}.input_layernorm.weight": (dtype, (hidden,)),
        f"{prefix}.post_attention_layernorm.weight": (dtype, (hidden,)),
        f"{prefix}.self_attn.q_proj.weight": (dtype, (hidden, hidden)),
        f"{prefix}.self_attn.k_proj.weight": (dtype, (kv, hidden)),
        f"{prefix}.self_attn.v_proj.weight": (dtype, (kv, hidden)),
        f"{prefix}.self_attn.o_proj.weight": (dtype, (hidden, hidden)),
        f"{prefix}.mlp.gate_proj.weight": (dtype, (2 * hidden, hidden)),
        f"{prefix}.mlp.up_proj.weight": (dtype, (2 * hidden, hidden)),
        f"{prefix}.mlp.down_proj.weight": (dtype, (hidden, 2 * hidden)),
    }


def trunk(layers=2, prefix="model.", hidden=64, kv=32, vocab=100, dtype="F16"):
    shapes = {f"{prefix}embed_tokens.weight": (dtype, (vocab, hidden))}
    for index in range(layers):
        shapes |= layer(f"{prefix}layers.{index}", hidden, kv, dtype)
    return shapes | {f"{prefix}norm.weight": (dtype, (hidden,))}


def qwen_head(prefix="mtp.", hidden=64, dtype="F16"):
    return {
        f"{prefix}fc.weight": (dtype, (hidden, 2 * hidden)),
        f"{prefix}pre_fc_norm_hidden.weight": (dtype, (hidden,)),
        f"{prefix}pre_fc_norm_embedding.weight": (dtype, (hidden,)),
        f"{prefix}norm.weight": (dtype, (hidden,)),
        **layer(f"{prefix}layers.0", hidden, dtype=dtype),
    }


def quantise(shapes, bits=4, group=32, keep=("norm",)):
    """The same model as mlx stores it packed: U32 words, scales and biases."""
    packed = {}
    for name, (dtype, shape) in shapes.items():
        if len(shape) != 2 or any(word in name for word in keep):
            packed[name] = (dtype, shape)
            continue
        module = name.removesuffix(".weight")
        rows, columns = shape
        packed[name] = ("U32", (rows, columns * bits // 32))
        packed[f"{module}.scales"] = packed[f"{module}.biases"] = (dtype, (rows, columns // group))
    return packed


def write_json(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def tokenizer_json(words=("a", "b", "ab"), merges=("a b",), special=("<end>",), **steps):
    """A byte-pair tokenizer as its file spells it; steps: normalizer, pre_tokenizer."""
    added = [
        {"id": len(words) + at, "content": word, "special": True} for at, word in enumerate(special)
    ]
    model = {"type": "BPE", "vocab": {w: i for i, w in enumerate(words)}, "merges": list(merges)}
    return {
        "model": model,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel"},
        **steps,
    }


def write_model(folder: Path, config=None, shapes=None, tokenizer=None, **more):
    """A whole folder: config.json, model.safetensors, tokenizer.json. Returns the folder."""
    write_json(folder / "config.json", {**LLAMA, **(config or {}), **more})
    write_safetensors(folder / "model.safetensors", shapes or trunk())
    write_json(folder / "tokenizer.json", tokenizer or tokenizer_json())
    return folder
