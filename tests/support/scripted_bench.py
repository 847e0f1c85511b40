"""An engine whose runs are written down beforehand, and a plan for it."""

from types import SimpleNamespace

from llm_specdec.bench.rules import Case
from llm_specdec.bench.runs import Greedy, Progress, Schedule
from llm_specdec.bench.sessions import Configuration
from llm_specdec.bench.store import Asked
from llm_specdec.receipts import Lane
from tests.support.receipts import run

# The founding note's decode rates: a gain of 131 %.
SEED = {"none": [16.9, 16.0, 17.2], "qwen": [35.8, 40.6, 39.7]}

CONDITIONS = {
    "machine": {"chip": "M4 Max", "cores": 16, "memory_bytes": 2**37, "system": "Darwin"},
    "state": {"load_1min": 0.2, "power": "mains", "memory_pressure": "normal",
              "memory_available_bytes": 2**36, "swap_used_bytes": 0, "large_processes": []},
    "versions": {"mlx": "0.32.4", "mlx-lm": "0.32.2", "llm": "0.36", "llm-specdec": "0.1.0"},
    "models": {
        "target": {"name": "someone/Secret-27B-4bit", "architecture": "qwen3_5", "bits": 4,
                   "group_size": 64, "fingerprint": "0123456789abcdef"},
        "drafter": {"name": "/models/secret-drafter", "architecture": "dflash", "bits": None,
                    "group_size": None, "fingerprint": "fedcba9876543210"},
    },
    "max_tokens": 512,
    "runs": 3,
}  # fmt: skip


def timed(decode, ttft_ms=1000.0, tokens=100, **changes):
    """A run that decodes at `decode` tokens a second."""
    wall = ttft_ms + 1000 * tokens / decode
    return run(
        completion_ids=list(range(tokens)),
        ttft_ms=ttft_ms,
        wall_ms=wall,
        phases_ms={"prefill": ttft_ms, "verify": (wall - ttft_ms) / 2},
        **changes,
    )


class Scripted:
    """Decode rates by configuration (and context), dealt out run by run."""

    context = 20_000
    counts = True

    def __init__(self, rates, outputs=None, gap=None, interrupt_after=None):
        self.rates = {key: list(values) for key, values in rates.items()}
        self.outputs, self.gap = outputs or {}, gap  # of a tie by width; None: broken
        self.left = interrupt_after
        self.calls: list[tuple[object, ...]] = []
        self.configs: list[Configuration] = []

    def count(self, text):
        return len(self.prompt(text))

    def prompt(self, text):
        return list(text.encode()[::3])

    def greedy(self, config, prompt):
        self.calls.append(("greedy", config))
        said = self.outputs.get(config, [1, 2, 3])
        return Greedy(run(completion_ids=said), said)

    def timed(self, config, prompt, number, warm):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        self.calls.append(("timed", config, number, warm))
        key = config if config in self.rates else (config, len(prompt))
        cached = {"cached_tokens": len(prompt) - 1} if warm else {}
        alone = {"lane": Lane("none", "off"), "drafted": 0, "accepted": 0, "rounds": 99,
                 "by_length": [99], "by_position": []}  # fmt: skip
        changes = cached | (alone if config == "none" else {})
        return timed(self.rates[key].pop(0), 100.0 if warm else 1000.0, **changes)

    def difference(self, prompt, one, other):
        pairs = enumerate(zip(one.said, other.said, strict=False))
        position = next((i for i, (a, b) in pairs if a != b), None)
        if position is None:
            return None
        return SimpleNamespace(position=position, gap=self.gap or 0.2, exact=bool(self.gap))


def plan(contexts=(2150,), configs=("none", "qwen"), mode="cold", runs=3, gate=15.0):
    cases = [Case("code", context) for context in contexts]
    conditions = {
        **CONDITIONS,
        "configs": [
            {"name": name, "pairing": "qwen", "kind": "none" if name == "none" else "dflash",
             "draft_tokens": "auto", "settings": {"temperature": 0.0}, "deviations": []}
            for name in configs
        ],
        "cases": [
            {**case._asdict(), "prompt_tokens": case.context, "prompt_sha256": "abc"}
            for case in cases
        ],
    }  # fmt: skip
    asked = Asked("qwen", None, "none", mode, gate)
    prompts = {case: [0] * case.context for case in cases}
    return Schedule(asked, configs, prompts, runs, conditions)


def progress(steps=10, clock=None):
    told: list[str] = []
    made = Progress(told.append, steps, *([clock] if clock else []))
    return made, told
