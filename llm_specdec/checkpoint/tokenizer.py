"""What a tokenizer is, and where two of them differ, by content."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_specdec import files
from llm_specdec.checkpoint.files import TEMPLATE_LIMIT, TOKENIZER_LIMIT, read_json
from llm_specdec.checkpoint.vocabulary import TokenIds, generation_config
from llm_specdec.errors import CheckpointError

# Words in a chat template → the tool format, by mlx-lm's names for its tool parsers.
_TOOL_FORMATS = (
    ("<minimax:tool_call>", "minimax_m2"),
    ("<|tool_call>", "gemma4"),
    ("<start_function_call>", "function_gemma"),
    ("<longcat_tool_call>", "longcat"),
    ("<arg_key>", "glm47"),
    ("<|tool_call_start|>", "pythonic"),
    ("<function=", "qwen3_coder"),
    ("<|tool_calls_section_begin|>", "kimi_k2"),
    ("[TOOL_CALLS]", "mistral"),
    ("<|channel|>", "harmony"),
    ("<tool_call>", "json_tools"),
)
_THINKING_SWITCHES = ("enable_thinking", "thinking_budget", "reasoning_effort")


@dataclass(frozen=True)
class TokenizerFacts:
    """vocabulary counts entries with added tokens; ids are what the files declare."""

    type: str  # BPE, Unigram, WordPiece, … or the file's name where it is no tokenizer.json
    vocabulary: int
    highest_id: int
    special_ids: dict[str, tuple[int, ...]]
    chat_template: bool
    thinking: str | None  # the template's switch, or "always" where it thinks without one
    tools: str | None


def read(folder: Path) -> dict[str, Any]:
    """The folder's tokenizer.json, which can be large; {} where it has none. Raises
    CheckpointError."""
    return read_json(folder / "tokenizer.json", TOKENIZER_LIMIT)


def facts(
    folder: Path, data: dict[str, Any], special_ids: dict[str, tuple[int, ...]]
) -> TokenizerFacts | None:
    """What the folder's tokenizer is; None when it has none. data: as `read` gives it. Raises
    CheckpointError."""
    template = chat_template(folder)
    if not data:
        other = next((n for n in ("tokenizer.model", "vocab.json") if (folder / n).is_file()), None)
        if other is None:
            return None
        return TokenizerFacts(other, 0, 0, special_ids, bool(template), None, None)
    ids = _ids(data)
    return TokenizerFacts(
        str(_model(data).get("type") or "unknown"),
        len(ids),
        max(ids.values(), default=0),
        special_ids,
        bool(template),
        _thinking(template),
        _tools(template),
    )


def token_ids(folder: Path, data: dict[str, Any]) -> TokenIds:
    """data: as `read` gives it. Raises CheckpointError."""
    ids = _ids(data)
    return TokenIds({*ids.values()}, ids.get(_own_end(folder)))


def _own_end(folder: Path) -> str:
    """The tokenizer's own end token as text, "" where its files name none."""
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        found = read_json(folder / name).get("eos_token")
        text = found.get("content") if isinstance(found, dict) else found
        if isinstance(text, str) and text:
            return text
    return ""


def chat_template(folder: Path) -> str:
    """The chat template's text, "" when there is none."""
    path = folder / "chat_template.jinja"
    try:
        return files.read(path, TEMPLATE_LIMIT).decode("utf-8", "replace")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    for name in ("chat_template.json", "tokenizer_config.json"):
        found = read_json(folder / name).get("chat_template")
        if isinstance(found, list):  # several templates by name
            named = {str(t.get("name")): t.get("template") for t in found if isinstance(t, dict)}
            found = named.get("default") or next(iter(named.values()), "")
        if isinstance(found, str) and found:
            if len(found) > TEMPLATE_LIMIT:
                raise CheckpointError(
                    f"{folder / name}: its chat template has {len(found):,} characters, "
                    f"at most {TEMPLATE_LIMIT:,} are read"
                )
            return found
    return ""


def _thinking(template: str) -> str | None:
    switch = next((word for word in _THINKING_SWITCHES if word in template), None)
    return switch or ("always" if "<think>" in template else None)


def _tools(template: str) -> str | None:
    if "tools" not in template and "[TOOL_CALLS]" not in template:
        return None
    return next(
        (name for word, name in _TOOL_FORMATS if word in template),
        "in the template, no parser for calls",
    )


def special_ids(folder: Path, ends: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """bos, eos and pad ids. ends: those that end an answer."""
    config = read_json(folder / "config.json")
    text = config.get("text_config")
    nested = text if isinstance(text, dict) else {}
    merged = {**config, **nested, **generation_config(folder)}
    said = {"bos": merged.get("bos_token_id"), "eos": [*ends], "pad": merged.get("pad_token_id")}
    found = {name: value if isinstance(value, list) else [value] for name, value in said.items()}
    whole = {name: tuple(i for i in ids if isinstance(i, int)) for name, ids in found.items()}
    return {name: ids for name, ids in whole.items() if ids}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _model(data: dict[str, Any]) -> dict[str, Any]:
    model = data.get("model")
    return model if isinstance(model, dict) else {}


def _added(data: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    """Added tokens: content → (id, special)."""
    entries = _list(data.get("added_tokens"))
    return {
        str(entry["content"]): (int(entry["id"]), bool(entry.get("special")))
        for entry in entries
        if isinstance(entry, dict) and "content" in entry and isinstance(entry.get("id"), int)
    }


def _vocabulary(data: dict[str, Any]) -> dict[str, int]:
    vocabulary = _model(data).get("vocab")
    if isinstance(vocabulary, list):  # Unigram: [[piece, score], …], the place is the id
        pieces = (entry[0] if isinstance(entry, list) and entry else "" for entry in vocabulary)
        return {str(piece): index for index, piece in enumerate(pieces)}
    return vocabulary if isinstance(vocabulary, dict) else {}


def _ids(data: dict[str, Any]) -> dict[str, int]:
    ids = {piece: index for piece, index in _vocabulary(data).items() if isinstance(index, int)}
    ids.update({piece: index for piece, (index, _) in _added(data).items()})
    return ids


def compare_tokenizers(a: Path, b: Path) -> list[str]:
    """Differences between two folders' tokenizers, one line each with figures; [] if none.

    Content decides: vocabulary, merges, added and special tokens, normaliser and
    pre-tokeniser. The vocab_size of a config (often padded) plays no part.
    Raises CheckpointError when one cannot be read.
    """
    first, second = a / "tokenizer.json", b / "tokenizer.json"
    for path in (first, second):
        if not path.exists():
            return [f"no tokenizer.json in {path.parent.name}: the two cannot be compared"]
    one, two = (read_json(path, TOKENIZER_LIMIT) for path in (first, second))
    if one == two:
        return []
    return [
        *_differing_ids(_ids(one), _ids(two)),
        *_differing_merges(one, two),
        *_differing_special(_added(one), _added(two)),
        *_differing_steps(one, two),
    ]


def _differing_ids(one: dict[str, int], two: dict[str, int]) -> list[str]:
    if len(one) != len(two):
        return [f"vocabulary: {len(one):,} entries against {len(two):,}"]
    moved = [piece for piece, index in one.items() if two.get(piece) != index]
    if not moved:
        return []
    piece = moved[0]
    here, there = one[piece], two.get(piece, "none")
    return [
        f"vocabulary: {len(moved):,} of {len(one):,} entries have another id, "
        f"first {piece!r}: {here} against {there}"
    ]


def _differing_merges(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    first, second = _merges(one), _merges(two)
    if len(first) != len(second):
        return [f"merges: {len(first):,} against {len(second):,}"]
    at = next((i for i, pair in enumerate(zip(first, second, strict=True)) if len({*pair}) > 1), -1)
    return [] if at < 0 else [f"merges: equal in number ({len(first):,}), first difference at {at}"]


def _merges(data: dict[str, Any]) -> list[str]:
    """Merges as "left right", whichever of the two spellings the file uses."""
    merges = _list(_model(data).get("merges"))
    return [" ".join(map(str, m)) if isinstance(m, list) else str(m) for m in merges]


def _differing_special(
    one: dict[str, tuple[int, bool]], two: dict[str, tuple[int, bool]]
) -> list[str]:
    """Added tokens whose special mark differs; their ids are compared with the vocabulary."""
    changed = [p for p in one.keys() & two.keys() if one[p][1] != two[p][1]]
    lone = one.keys() ^ two.keys()
    if not changed and not lone:
        return []
    example = min([*changed, *lone])
    return [f"added tokens: {len(changed) + len(lone)} differ, for example {example!r}"]


def _differing_steps(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    names = {"normalizer": "normaliser", "pre_tokenizer": "pre-tokeniser"}
    return [
        f"{name}: {_step(one.get(key))} against {_step(two.get(key))}"
        for key, name in names.items()
        if json.dumps(one.get(key), sort_keys=True) != json.dumps(two.get(key), sort_keys=True)
    ]


def _step(value: Any) -> str:
    if not isinstance(value, dict):
        return "none"
    inner = _list(value.get("pretokenizers") or value.get("normalizers"))
    kinds = "+".join(str(step.get("type")) for step in inner if isinstance(step, dict))
    return f"{value.get('type')}({kinds})" if kinds else str(value.get("type"))
