"""A stored bench as what is shown: summaries, gains, parity; and without names, if asked."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llm_specdec.bench import rules
from llm_specdec.bench.rules import Case
from llm_specdec.drafters.table import words


def assemble(stored: Mapping[str, Any]) -> dict[str, Any]:
    """`Store.bench` with its runs summed up by case and configuration, the baseline first."""
    names = [config["name"] for config in stored["conditions"]["configs"]]
    warm = stored["mode"] == "warm"
    cases = []
    for about in stored["conditions"]["cases"]:
        case = Case(about["text"], about["context"])
        configs = [_config(stored, case, name, warm) for name in names]
        baseline = configs[0]
        for config in configs[1:]:
            config["gain"] = {
                rate: rules.gain(baseline[rate], config[rate])
                for rate in ("decode_tps", "end_to_end_tps")
            }
        cases.append({**about, "configs": configs})
    head = ("id", "datetime_utc", "pairing", "profile", "against", "mode", "gate_pct")
    return {
        **{name: stored[name] for name in head},
        "partial": bool(stored["partial"]),
        "verdict": stored["verdict"],
        "cases": cases,
        "conditions": stored["conditions"],
    }


def redact(bench: Mapping[str, Any]) -> dict[str, Any]:
    """The bench without repository names, paths and the user's own names for them: a model is
    its architecture, bits, group size and fingerprint. For those who may not name their build."""
    conditions = bench["conditions"]
    said = [bench["pairing"], *(_pairing_of(config["name"]) for config in conditions["configs"])]
    own = [name for name in dict.fromkeys(said) if name not in words()]
    names = {name: f"pairing-{place}" for place, name in enumerate(own, 1)}
    for model in conditions["models"].values():
        names[Path(model["name"]).name] = names[model["name"]] = described(model)
    found: dict[str, Any] = _renamed(dict(bench), names)
    return found


def described(model: Mapping[str, Any]) -> str:
    """Architecture, bits, group size, fingerprint: a model without its name."""
    bits = f" {model['bits']}-bit" if model.get("bits") else ""
    group = f" g{model['group_size']}" if model.get("group_size") else ""
    return f"{model['architecture']}{bits}{group} {model['fingerprint'][:12]}".strip()


def _config(stored: Mapping[str, Any], case: Case, name: str, warm: bool) -> dict[str, Any]:
    runs = _of(stored["runs"], case, name)
    found = {
        "config": name,
        **rules.summary([run["specdec"] for run in runs if run["warm"] == warm], warm),
        "parity": next(iter(_of(stored["parities"], case, name)), None),
        "gain": None,
    }
    if warm:
        cold = [run["specdec"]["ttft_ms"] for run in runs if not run["warm"]]
        found["cold_ttft_ms"] = rules.figures(cold)
    return found


def _of(rows: Iterable[dict[str, Any]], case: Case, config: str) -> list[dict[str, Any]]:
    return [
        row for row in rows if row["config"] == config and Case(row["text"], row["context"]) == case
    ]


def _pairing_of(config: str) -> str:
    """The pairing behind a configuration's name, NAME, NAME/PROFILE or NAME:LENGTH."""
    return re.split("[/:]", config)[0]


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with every whole name in its texts replaced, longer names first."""
    if isinstance(value, dict):
        return {_renamed(key, names): _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, str):
        for name in sorted(names, key=len, reverse=True):
            value = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", names[name], value)
    return value
