"""Our prediction heads against mlx_vlm's `qwen3_5_mtp` and `nemotron_h_mtp`, logits row by row
and round for round.

    pip download --no-deps mlx-vlm==0.7.10, unpack the wheel into FOLDER
    PYTHONPATH=FOLDER python -m benchmarks.heads_parity [--record]

mlx_vlm keeps the slots that the head filled from its own output where those drafts were accepted;
here every such slot is made again from the target's true hidden states. The reference is told to
do so, too, before it takes accepted tokens in. --record writes what the tests compare with.
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
from mlx_vlm.speculative.drafters import nemotron_h_mtp, qwen3_5_mtp

from fixtures import head_reference as scripts
from fixtures import heads
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.mtp.loading import load_head
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.engine.target import Target

VERSION = "0.7.10"  # of mlx_vlm
ROUNDING = 1e-4  # largest difference of logits of the size of 10, in float32


class Reference:
    """mlx_vlm's drafter as the loop drives one."""

    kind = source = "mtp"
    taps: tuple[Tap, ...] = ("final_norm",)
    max_draft: int | None = None

    def __init__(self, folder: Path, target: Target) -> None:
        config = json.loads((folder / "config.json").read_text())
        nemotron = config["model_type"] == "nemotron_h_mtp"
        family = nemotron_h_mtp if nemotron else qwen3_5_mtp
        config["model_type"] = family.__name__.rpartition(".")[2]
        self._head = family.Model(family.ModelConfig.from_dict(config))
        # The target is mlx-lm's, which has what is asked of mlx_vlm's.
        self._head.validate_target_compatibility = lambda target: None
        weights = self._head.sanitize(heads.read(folder / "model.safetensors"))
        self._head.load_weights(list(weights.items()), strict=True)
        self._head.eval()
        self._target = target

    def start(self, token: int) -> None:
        self._head.reset(self._target.model)
        self._tokens, self._hidden, self._read = [token], list[mx.array](), False

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        if not self._read:
            self._tokens += next_tokens
            self._hidden.append(hidden["final_norm"])
            return
        head = self._head
        for cache in head._cache:
            cache.trim(head._round_appended)
        head._next_position -= head._round_appended
        head._round_appended = 0
        accepted = len(next_tokens) - 1
        drafts = mx.array([list(next_tokens[:-1])], dtype=mx.int32)
        head.accept_verified_tokens(
            hidden["final_norm"][None], drafts, accepted, [next_tokens[-1]], None, greedy=True
        )

    def ready(self) -> bool:
        return self._read or bool(self._hidden)

    def propose(self, k: int, draw: Draw) -> Proposal:
        head = self._head
        if not self._read:
            self._read = True
            head.prefill_from_target_hidden(
                mx.array([self._tokens[:-1]]),
                mx.concatenate(self._hidden)[None],
                self._tokens[-1],
                None,
                greedy=True,
            )
        # Each draft's logits, as the reference comes by them; its own choice is the argmax, too.
        drafted: list[mx.array] = []
        seed, output = head._seed_hidden, head._lm_head_fn
        drafted.append(draw.one(output(seed)[0, -1], drafted))

        def noting(hidden: mx.array) -> mx.array:
            logits: mx.array = output(hidden)
            drafted.append(draw.one(logits[0, -1], drafted))
            return logits

        head._lm_head_fn = noting
        tokens = head.draft_block(self._tokens[-1], seed, None, k + 1, None, greedy=True)
        head._lm_head_fn = output
        assert mx.array_equal(tokens[0], mx.stack(drafted))
        return Proposal(mx.stack(drafted))

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        raise NotImplementedError


def played(name: str, kind: Any) -> tuple[mx.array, dict[str, list[list[int]]]]:
    """Logits of the scripted rows, and the proposals of whole generations."""
    drafts = {}
    for predictable, depth in product((False, True), scripts.DEPTHS):
        with tempfile.TemporaryDirectory() as place:
            folder, head = scripts.write(name, Path(place), predictable=predictable)
            target = load(folder)
            if not predictable:
                logits = scripts.rows(kind(head, target))
                mx.eval(logits)
            title = scripts.title(predictable, depth)
            drafts[title] = scripts.proposals(target, kind(head, target), depth)
    return logits, drafts


def record(found: dict[str, tuple[mx.array, dict[str, list[list[int]]]]]) -> None:
    cases = {
        name: {
            "logits": np.array(logits, dtype=float).round(5).tolist(),
            "proposals": drafts,
        }
        for name, (logits, drafts) in found.items()
    }
    versions = {"mlx_vlm": VERSION, "mlx": metadata.version("mlx")}
    scripts.RECORDED.write_text(json.dumps({"versions": versions, "cases": cases}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    theirs = {name: played(name, Reference) for name in scripts.CASES}
    if args.record:
        record(theirs)
    failed = False
    for name, (logits, drafts) in theirs.items():
        ours = played(name, load_head)
        apart = float(np.abs(np.array(ours[0]) - np.array(logits)).max())
        print(f"{name}: {len(logits)} rows of logits, at most {apart:.1e} apart")
        failed |= apart > ROUNDING
        for title, rounds in drafts.items():
            own = ours[1][title]
            same = sum(a == b for a, b in zip(own, rounds, strict=False))
            total = max(len(own), len(rounds))
            print(f"{name}, {title}: {same} of {total} rounds equal")
            failed |= same < total
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
