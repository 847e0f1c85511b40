"""Strangers' files, mutated, through the commands that read them.

    python -m benchmarks.fuzz_files --cases 500 --seconds 300

Each case must end within SECONDS and MEGABYTES above the start, with exit status 0, 1 or 2, no
traceback, and nothing in its output that a terminal would obey. A kind runs in a worker process
of its own, so that one that hangs or dies costs that kind alone. The last line is JSON; exit
status 1 where a case broke a rule, which `--kind KIND --seed SEED --only CASE` repeats.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SECONDS, MEGABYTES = 2.0, 300.0
HANGS = 20  # seconds after which a case is given up

COMMANDS = {chr(n) for n in (*range(9), *range(11, 32), *range(127, 160))}
MARKS = {*map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))}
HOSTILE = "\x1b]0;t\x07\x9b31m\u202e\r\x00\u2066\n\x7f"

CONFIG: dict[str, Any] = {
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
MORE_KEYS = [
    "text_config", "quantization", "quantization_config", "layer_types", "sliding_window",
    "sliding_window_pattern", "num_kv_shared_layers", "auto_map", "model_file", "dflash_config",
    "eos_token_id", "mtp_num_hidden_layers", "num_nextn_predict_layers", "num_experts", "dtype",
    "num_experts_per_tok", "rope_scaling", "rope_theta", "hybrid_layer_pattern", "n_positions",
    "speculators_model_type", "transformer_layer_config", "block_size", "mask_token_id",
]  # fmt: skip
TYPES = [
    "llama", "gemma3_text", "exaone4", "gpt_oss", "mimo_v2_flash", "qwen3_5", "rwkv7", "mamba2",
    "deepseek_v3", "gemma4", "gpt2", "llama4", "\x1b[31m", "../../etc/passwd",
]  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    "{% if enable_thinking %}<think>{% endif %}"
)
PIECES = [
    "{{ 'a' * 200000000 }}", "{{ 'a' | center(200000000) }}", "{% for i in range(99999) %}",
    "{% endfor %}", "{% if false %}", "{% endif %}", "{{ 10 ** 9 ** 9 }}", "{{", "}}", "{%", "%}",
    "{#", "#}", "(" * 3000, "{{ [[" * 500, "{% macro m() %}", "{% endmacro %}", "{% set x = ",
    "{% autoescape 'a' * 200000000 %}", "{% raw %}", "{% generation %}", "{% include 'x' %}",
    "{{ raise_exception(messages[0].content) }}", "x" * 30_000, HOSTILE, "{{ ''.__class__ }}",
    "{% extends 'a' * 200000000 %}", "{{ 9" + "9" * 5000 + " }}", "reasoning_effort == 'low'",
]  # fmt: skip
CARD = [
    "# Model", "temperature=0.7", "top_p: 0.95", "| a | b |\n|---|---|\n| temperature | 0.6 |",
    "```python\ngenerate(temperature=0.6)\n```", "We recommend", "Do not use top_k.", "<!--", "-->",
    "<del>", "</del>", "a" * 50_000, "*" * 5000, "`" * 3000, "[" * 3000, "> " * 500, "- " * 500,
    "\n" * 300, HOSTILE, "1e999", "9" * 6000, "---", "base_model: a/b", "<br>" * 2000, "$" * 2000,
    "converted from a/b", "推荐 temperature 0.6", "temperature " * 3000, "0.6 " * 3000,
    "&amp;" * 999,
]  # fmt: skip
KEYWORDS = [
    "type", "properties", "required", "items", "prefixItems", "minItems", "maxItems", "minimum",
    "maximum", "multipleOf", "pattern", "minLength", "maxLength", "enum", "const", "anyOf", "oneOf",
    "allOf", "not", "$ref", "$defs", "additionalProperties", "patternProperties", "minProperties",
    "default", "examples", "format", "uniqueItems", "if", "then",
]  # fmt: skip


class Case(NamedTuple):
    """A command line of ours, or a call that a command would make."""

    arguments: list[str]
    call: Callable[[], object] | None = None


def value(source: random.Random, depth: int = 0) -> Any:
    """Something that is seldom right."""
    simple: list[Any] = [
        None, True, -1, 0, 1, 2, 3, 64, 100, 10**7, 2**31, 2**63, 10**20, 10**400, -(10**400), 0.5,
        1e308, float("inf"), "", "x", HOSTILE, "x" * 5000, "sliding_attention", [], {}, [[]] * 50,
        "\ud800", "#/$defs/a", "#", "string", "object", "a*" * 50, list(range(3000)),
    ]  # fmt: skip
    kind = source.random()
    if depth < 3 and kind < 0.15:
        return [value(source, depth + 1) for _ in range(source.randrange(4))]
    if depth < 3 and kind < 0.35:
        keys = source.sample([*CONFIG, *MORE_KEYS, *KEYWORDS], 3)
        return {key: value(source, depth + 1) for key in keys}
    if kind < 0.38:
        return nested(source.choice((50, 130, 900)), source.choice(KEYWORDS))
    return source.choice(simple)


def like(source: random.Random, right: Any) -> Any:
    """Mostly something of the right form and the wrong size, else anything."""
    if source.random() < 0.4 or isinstance(right, list | dict):
        return value(source)
    if isinstance(right, bool):
        return not right
    if isinstance(right, str):
        return source.choice((HOSTILE, right + HOSTILE, "", right * 1000))
    return source.choice(
        (0, 1, 2, 3, 7, 63, 64, 65, 512, 4096, 10**7, 2**31, 2**40, 2**53, 10**400)
    )


def part(source: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema that is mostly one."""
    found: dict[str, Any] = {"type": source.choice(("object", "array", "string", "integer"))}
    inner = part(source, depth + 1) if depth < 3 else {"$ref": source.choice(("#", "#/$defs/a"))}
    names = source.sample([*KEYWORDS, "a", "b", HOSTILE], 3)
    match found["type"]:
        case "object":
            found |= {"properties": dict.fromkeys(names, inner), "required": names[:1]}
        case "array":
            found |= {"items": inner, "minItems": source.choice((0, 1, 2.0, 10**6))}
        case "string":
            pattern = source.choice(("a+", "(a|b){1,500}", "[" * 50, HOSTILE))
            found[source.choice(("pattern", "format"))] = pattern
        case _:
            found[source.choice(("minimum", "maximum"))] = source.choice((0, -1, 2**62, 1e300, 0.5))
    if not depth:
        found["$defs"] = {"a": part(source, 2)}
    if source.random() < 0.1:
        found = {source.choice(("anyOf", "allOf", "oneOf")): [found, inner]}
    return found


def nested(levels: int, key: str) -> Any:
    found: Any = {}
    for _ in range(levels):
        found = {key: found}
    return found


def trunk() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (100, 64)}
    for layer in range(2):
        at = f"model.layers.{layer}"
        found |= {f"{at}.self_attn.{name}_proj.weight": (64, 64) for name in "qo"}
        found |= {f"{at}.self_attn.{name}_proj.weight": (32, 64) for name in "kv"}
        found |= {f"{at}.mlp.{name}_proj.weight": (128, 64) for name in ("gate", "up")}
        found[f"{at}.mlp.down_proj.weight"] = (64, 128)
    return found | {"model.norm.weight": (64,)}


def header() -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = 0
    for name, shape in trunk().items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        found[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return found


def write_safetensors(path: Path, raw: bytes, claimed: int | None = None) -> None:
    data = sum(2 * shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in trunk().values())
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw) if claimed is None else claimed) + raw)
        file.truncate(8 + len(raw) + data)


def write_model(folder: Path, config: Any = CONFIG) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", json.dumps(header()).encode())
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": []}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))


def look(source: random.Random, folder: Path) -> Case:
    """Any command that reads a model's folder."""
    add = ["add", "fuzz", "--target", str(folder), "--drafter", "lookup", "--force", "--yes"]
    commands = [["inspect", str(folder)], ["inspect", str(folder), "--json"], add]
    return Case(source.choice(commands))


def config(source: random.Random, folder: Path) -> Case:
    found: Any = {**CONFIG, "model_type": source.choice(TYPES[:1] * 8 + TYPES)}
    for _ in range(source.randrange(1, 4)):
        key = source.choice([*CONFIG, *MORE_KEYS])
        found[key] = like(source, CONFIG.get(key, 1))
    if source.random() < 0.1:
        found = value(source)
    write_model(folder, found)
    return look(source, folder)


def headers(source: random.Random, folder: Path) -> Case:
    write_model(folder)
    found = header()
    for _ in range(source.randrange(1, 4)):
        name = source.choice(list(found))
        match source.randrange(5):
            case 0:
                found[name] = value(source)
            case 1 if isinstance(found[name], dict):
                found[name][source.choice(("dtype", "shape", "data_offsets"))] = value(source)
            case 2:
                found[name.replace("0", source.choice(("7", "99999999", HOSTILE)))] = found[name]
            case 3:
                found[HOSTILE + name] = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
            case _:
                found.pop(name)
        if not found:
            break
    raw = bytearray(json.dumps(found).encode())
    for _ in range(source.choice((0, 0, 0, 3))):
        raw[source.randrange(len(raw))] = source.randrange(256)
    claimed = source.choice((None, None, None, 2**40, 2**64 - 1, 0, len(raw) + 1))
    write_safetensors(folder / "model.safetensors", bytes(raw), claimed)
    return look(source, folder)


def tokenizer(source: random.Random, folder: Path) -> Case:
    write_model(folder)
    name = source.choice(
        ("tokenizer.json", "tokenizer_config.json", "generation_config.json",
         "model.safetensors.index.json", "chat_template.json")
    )  # fmt: skip
    path = folder / name
    found: Any = json.loads(path.read_text()) if path.exists() else {}
    for _ in range(source.randrange(1, 4)):
        place = found
        while isinstance(place, dict) and place and source.random() < 0.6:
            inner = place[source.choice(list(place))]
            if not isinstance(inner, dict):
                break
            place = inner
        keys = ["model", "vocab", "merges", "added_tokens", "chat_template", "weight_map", "type"]
        place[source.choice([*place, *keys, HOSTILE])] = value(source)
    path.write_text(json.dumps(found))
    return look(source, folder)


def template(source: random.Random, folder: Path) -> Case:
    from llm_specdec.prompting import thinking

    write_model(folder)
    pieces = source.choices(PIECES, k=source.randrange(1, 5))
    text = TEMPLATE
    for piece in pieces:
        at = source.randrange(len(text) + 1)
        text = text[:at] + piece + text[at + source.choice((0, 0, 5)) :]
    if source.random() < 0.5:
        return Case([], lambda: thinking.template_arguments(text, "on", {}))
    (folder / "chat_template.jinja").write_text(text)
    return look(source, folder)


def card(source: random.Random, folder: Path) -> Case:
    write_model(folder)
    between = source.choice((" ", "\n", "\n\n", ""))
    pieces = source.choices(CARD, k=source.randrange(1, 12))
    front = source.choice(("", "---\nbase_model: [\n---\n", "---\n" + "a: &a [*a]\n" * 9 + "---\n"))
    text = front + between.join(pieces * source.choice((1, 1, 1, 5)))
    (folder / "README.md").write_text(text[: 1 << 20])
    return Case(["card", str(folder), *source.choice(([], ["--json"]))])


def schema(source: random.Random, folder: Path) -> Case:
    from llm_specdec.constraints import schemas

    found = part(source)
    for _ in range(source.choice((0, 0, 1, 2))):
        found[source.choice(KEYWORDS)] = value(source)
    return Case([], lambda: schemas.grammar(found))


KINDS: dict[str, Callable[[random.Random, Path], Case]] = {
    "config": config,
    "header": headers,
    "tokenizer": tokenizer,
    "template": template,
    "card": card,
    "schema": schema,
}


class TooSlow(BaseException):
    pass


@contextlib.contextmanager
def given_up_after(seconds: int) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def ended(case: Case) -> tuple[int, str, str]:
    """(exit status, output, exception that nobody turned into a line)."""
    import llm.cli
    from click.testing import CliRunner

    from llm_specdec.errors import SpecdecError

    if case.call is None:
        done = CliRunner().invoke(llm.cli.cli, ["specdec", *case.arguments])
        odd = done.exception if not isinstance(done.exception, SystemExit) else None
        return done.exit_code, done.output, repr(odd) if odd else ""
    try:
        case.call()
    except SpecdecError as error:
        return error.exit_code, str(error), ""
    except Exception as error:
        return 1, "", repr(error)
    return 0, "", ""


def broken(status: int, output: str, odd: str, seconds: float, megabytes: float) -> str:
    """Which rule a case broke; "" for none."""
    rules = {
        f"raised {odd[:200]}": bool(odd),
        f"exit status {status}": status not in (0, 1, 2),
        "a traceback": "Traceback" in output,
        "a control character": bool((COMMANDS | MARKS) & {*output}),
        f"{seconds:.1f} s": seconds > SECONDS,
        f"{megabytes:.0f} MB": megabytes > MEGABYTES,
    }
    return ", ".join(rule for rule, broke in rules.items() if broke)


def peak() -> float:
    """Megabytes that this process ever had at once."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def work(kind: str, seed: int, cases: range) -> None:
    """Run the cases and write a line of JSON for each."""
    with tempfile.TemporaryDirectory() as place:
        os.environ["LLM_USER_PATH"] = f"{place}/llm"
        os.environ["HF_HUB_OFFLINE"] = "1"
        first = Path(place, "first")
        write_model(first)
        for arguments in (["inspect", str(first)], ["card", str(first)]):
            ended(Case(arguments))
        start = peak()
        for number in cases:
            source = random.Random(f"{kind} {seed} {number}")
            case = KINDS[kind](source, Path(place, f"case {number}"))
            began, before = time.perf_counter(), peak()
            try:
                with given_up_after(HANGS):
                    status, output, odd = ended(case)
            except TooSlow:
                status, output, odd = 1, "", "given up"
            seconds, after = time.perf_counter() - began, peak()
            grown = after - start if after > before else 0.0
            row = {
                "kind": kind,
                "case": number,
                "status": status,
                "seconds": seconds,
                "megabytes": grown,
                "broken": broken(status, output, odd, seconds, grown),
            }
            print(json.dumps(row), flush=True)


def run(kind: str, seed: int, cases: range, seconds: float) -> list[dict[str, Any]]:
    """What a worker says of its cases; one that ends early has a last row that says so."""
    command = [sys.executable, "-m", "benchmarks.fuzz_files", "--worker", "--kind", kind]
    command += ["--seed", str(seed), "--from", str(cases.start), "--cases", str(len(cases))]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds)
        said, how = done.stdout, f"the worker ended with status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        said, how = (error.stdout or b"").decode(), ""  # out of time, not broken
    rows = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
    if how and len(rows) < len(cases):
        rows.append({"kind": kind, "case": len(rows), "seconds": 0, "megabytes": 0, "broken": how})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=500, help="Of each kind")
    parser.add_argument("--seconds", type=float, default=300, help="For each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--from", dest="start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only", type=int, help="One case again")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    cases = range(asked.start, asked.start + asked.cases)
    if asked.only is not None:
        cases = range(asked.only, asked.only + 1)
    if asked.worker:
        work(asked.kind[0], asked.seed, cases)
        return
    summary = {}
    for kind in asked.kind or KINDS:
        rows = run(kind, asked.seed, cases, asked.seconds)
        found = [row for row in rows if row["broken"]]
        for row in found:
            print(f"{kind} {row['case']}: {row['broken']}")
        times = sorted(row["seconds"] for row in rows) or [0.0]
        summary[kind] = {
            "cases": len(rows),
            "broken": len(found),
            "median_s": round(times[len(times) // 2], 3),
            "longest_s": round(times[-1], 2),
            "most_mb": round(max((row["megabytes"] for row in rows), default=0)),
        }
        print(f"{kind}: {summary[kind]}", flush=True)
    print(json.dumps(summary))
    sys.exit(any(found["broken"] for found in summary.values()))


if __name__ == "__main__":
    main()
