"""Drafted texts on a simulated 16-bit accelerator, against mlx-lm's plain ones.

    python -m benchmarks.rounding [--tokens 192] [--strict GAP]

SmolLM2 with weights and activations in bfloat16, whose products are summed in float32 in an order
that depends on the number of rows, as the kernels of a GPU do, and rounded to bfloat16. Six
prompts × four lanes. Each text that parts from the plain one gets the verdict of bench.

--strict: a position whose two best logits lie within GAP is decided again by a pass over one row
before it counts. Exits 1 where anything is broken.
"""

import argparse
import collections
import functools
import sys
from typing import Any, cast
from unittest.mock import patch

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_map_with_path

from benchmarks import harness
from fixtures import parity
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.table import KINDS
from llm_specdec.engine import loop
from llm_specdec.engine.mlx_lm_parts import utils
from llm_specdec.engine.passes import Pass, Passes
from llm_specdec.engine.request import Round
from llm_specdec.engine.session import Session, Weights
from llm_specdec.engine.target import Target

LANES = {"lookup": 4, "model": 2, "dflash": 3, "mtp": 2}  # draft lengths
PROMPTS = ("explain-1", "explain-4", "code-1", "code-5", "prose-1", "copy-3")


class Linear(Module):
    """Without a bias, as all of SmolLM2's."""

    def __init__(self, weight: mx.array) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight = weight.astype(mx.float32)

    def __call__(self, x: mx.array) -> mx.array:
        product: mx.array = x.astype(mx.float32) @ self["weight"].T
        return product.astype(mx.bfloat16)

    as_linear = __call__


class Embedding(Linear):
    """Tied to the output matrix."""

    def __call__(self, ids: mx.array) -> mx.array:
        rows: mx.array = self["weight"][ids]
        return rows.astype(mx.bfloat16)


def simulated() -> Target:
    folder = harness.models() / "smollm2"
    model, config = utils.load_model(folder)
    model.set_dtype(mx.bfloat16)

    def swapped(_: str, module: Module) -> Module:
        forms = {"Linear": Linear, "Embedding": Embedding}
        form = forms.get(type(module).__name__)
        return form(module["weight"]) if form else module

    leaves = model.leaf_modules()
    model.update_modules(tree_map_with_path(swapped, leaves, is_leaf=Module.is_module))
    mx.eval(model.parameters())
    return Target(model, config, folder)


def lane(kind: str, target: Target) -> Session:
    folder = harness.models() / ("smollm2-mtp" if kind == "mtp" else "smollm2")
    drafters = {"model": "model", "dflash": "dflash2"}
    drafter = harness.models() / "drafters" / drafters[kind] if kind in drafters else None
    weights = Weights(folder, kind, drafter)
    return sessions.joined(weights, target, KINDS[kind].load(weights, target))


class Strict(Passes):
    """Passes whose near-ties are decided by a row of their own. What such a row attends to was
    still computed at the width of its pass."""

    def __init__(self, *args: Any, gap: float, counted: collections.Counter[str]) -> None:
        super().__init__(*args)
        self._gap, self._counted = gap, counted

    def forward(self, tokens: mx.array) -> Pass:
        start, n = self._cache.length, tokens.shape[0]
        found = super().forward(tokens)
        if not 1 < n <= 1 + max(LANES.values()):  # a plain pass, or a chunk of the prompt
            return found
        best = mx.sort(found.logits.astype(mx.float32), axis=-1)[:, -2:]
        near = cast(list[bool], (best[:, 1] - best[:, 0] <= self._gap).tolist())
        self._counted["verified"] += n
        if True not in near:
            return found
        i = near.index(True)
        self._counted["decided again"] += 1
        self._cache.rollback(start + i)
        before = Pass(found.logits[:i], {tap: rows[:i] for tap, rows in found.hidden.items()})
        alone = super().forward(tokens[i : i + 1])
        after = [self.forward(tokens[i + 1 :])] if i + 1 < n else []
        parts = [before, alone, *after]
        return Pass(
            mx.concatenate([part.logits for part in parts]),
            {tap: mx.concatenate([part.hidden[tap] for part in parts]) for tap in alone.hidden},
        )


def verdict(
    target: Target, prompt: list[int], expected: list[int], run: harness.Timed, strict: bool
) -> str:
    """A replay knows the rounds of a run, not the rows that --strict took out of them."""
    rounds = [Round(*passed) for passed in run.outcome.passes]
    found = parity.difference(target, prompt, expected, run.tokens, rounds)
    if found is None:
        return "identical"
    where = f"at {found.position}, gap {found.gap}"
    if strict:
        return f"parted {where}"
    return f"tie by width {where}" if found.exact else f"broken {where}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--strict", type=float, metavar="GAP")
    args = parser.parse_args()
    strict, counted = args.strict is not None, collections.Counter[str]()
    passes = functools.partial(Strict, gap=args.strict, counted=counted) if strict else Passes
    target = simulated()
    lanes = {kind: lane(kind, target) for kind in LANES}
    verdicts = collections.Counter[str]()
    for asked in harness.prompts(("explain", "code", "prose", "copy")):
        if asked.id not in PROMPTS:
            continue
        prompt = harness.rendered(target.tokenizer, asked.text)
        expected = parity.mlx_lm_tokens(target, prompt, args.tokens)
        for kind, session in lanes.items():
            with patch.object(loop, "Passes", passes):
                run = harness.timed(harness.ours(session, LANES[kind]), prompt, args.tokens)
            found = verdict(target, prompt, expected, run, strict)
            verdicts[found.split(" at ")[0]] += 1
            accepted = f"{run.outcome.accepted} of {run.outcome.drafted}"
            print(f"{asked.id:10} {kind:7} {len(run.tokens):4} tokens {accepted:>10}  {found}")
    print(dict(verdicts), dict(counted), flush=True)
    return int(verdicts["broken"] > 0)


if __name__ == "__main__":
    sys.exit(main())
