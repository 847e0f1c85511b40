"""Our EAGLE-3 drafters against mlx_vlm's `eagle3`, logits and proposals of whole generations.

    pip download --no-deps mlx-vlm==0.7.10, unpack the wheel into FOLDER
    PYTHONPATH=FOLDER python -m benchmarks.eagle3_parity [--record]

The reference knows the dialect of `speculators` alone, norms before its projection in one form,
and no scaled rotation; tests/drafters/eagle3/reference.json has what `speculators` itself drafts.
--record writes what the tests compare with.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_vlm.speculative.drafters import eagle3

from fixtures import eagle3_reference as scripts
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.engine.target import Target

VERSION = "0.7.10"  # of mlx_vlm
ROUNDING = 1e-4  # largest difference of logits of the size of 10, in float32


class Reference:
    """mlx_vlm's drafter as the loop drives one."""

    kind = source = "eagle3"
    max_draft: int | None = None

    def __init__(self, folder: Path, target: Target) -> None:
        config = eagle3.ModelConfig.from_dict(json.loads((folder / "config.json").read_text()))
        self._model = eagle3.Model(config)
        weights: Any = mx.load(str(folder / "model.safetensors"))
        self._model.load_weights(list(self._model.sanitize(weights).items()), strict=True)
        self._model.eval()
        self._model.bind = lambda target: self._model  # it has an embedding of its own
        self._target, self._logits = target, self._model._logits
        self._model._logits = self._noting
        self.taps: tuple[Tap, ...] = tuple(config.capture_layer_ids)
        self.noted: list[mx.array] = []

    def _noting(self, hidden: mx.array) -> mx.array:
        logits: mx.array = self._logits(hidden)
        self._rows.append(logits[0, -1])
        return logits

    def start(self, token: int) -> None:
        self._model.reset(self._target.model)
        self._tokens, self._hidden, self._read = [token], list[mx.array](), False
        self._rows: list[mx.array] = []

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        states = mx.concatenate([hidden[tap] for tap in self.taps], axis=-1)
        if not self._read:
            self._tokens += next_tokens
            self._hidden.append(states)
            return
        *accepted, last = next_tokens
        drafts = mx.array([accepted], dtype=mx.int32)
        self._model.accept_verified_tokens(
            states[None], drafts, len(accepted), [last], None, greedy=True
        )

    def ready(self) -> bool:
        return self._read or bool(self._hidden)

    def propose(self, k: int, draw: Draw) -> Proposal:
        if not self._read:
            self._read = True
            *read, last = self._tokens
            states = mx.concatenate(self._hidden)[None]
            self._model.prefill_from_target_hidden(
                mx.array([read]), states, last, None, greedy=True
            )
        tokens = self._model.draft_block(0, None, None, k + 1, None, greedy=True)
        self.noted += self._rows[-k:]
        return Proposal(tokens[0])

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        raise NotImplementedError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    equal = total = 0
    apart, found = 0.0, dict[str, Any]()
    for (name, case), depth in product(scripts.CASES.items(), scripts.DEPTHS):
        with tempfile.TemporaryDirectory() as place:
            target, folder = case.write(Path(place))
            theirs, rows = scripts.played(target, Reference(folder, target), depth)
            own, own_rows = scripts.played(target, scripts.ours(target, folder), depth)
        furthest = max(
            float(mx.abs(one - other).max()) for one, other in zip(own_rows, rows, strict=True)
        )
        same = sum(one == other for one, other in zip(own, theirs, strict=False))
        rounds = max(len(own), len(theirs))
        print(f"{name:18} {depth} draft tokens  rounds equal {same} of {rounds}", end="")
        print(f", logits at most {furthest:.1e} apart")
        equal, total, apart = equal + same, total + rounds, max(apart, furthest)
        logits = np.array(mx.stack(rows[-depth:]), dtype=float).round(5).tolist()
        found.setdefault(name, {})[str(depth)] = {"proposals": theirs, "last": logits}
    print(f"{equal} of {total} rounds equal")
    if args.record:
        versions = {"mlx_vlm": VERSION, "mlx": metadata.version("mlx")}
        scripts.RECORDED.write_text(json.dumps({"versions": versions, "cases": found}) + "\n")
    raise SystemExit(equal < total or apart > ROUNDING)


if __name__ == "__main__":
    main()
