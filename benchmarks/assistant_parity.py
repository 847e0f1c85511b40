"""Our assistants against mlx_vlm's `gemma4_assistant`, logits and proposals of whole generations.

    pip download --no-deps mlx-vlm==0.7.10, unpack the wheel into FOLDER
    PYTHONPATH=FOLDER python -m benchmarks.assistant_parity

The reference is given keys, values and hidden states of its own: from a plain pass of mlx-lm over
the text so far, before each draft. Position and window are set as here: mlx_vlm looks back from
the position before the last token, over a row less once its window is full, over all tokens of the
target's vocabulary. tests/drafters/assistant/reference.json has what transformers drafts.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache
from mlx_vlm.speculative.drafters import gemma4_assistant

from fixtures import assistant_checkpoints as checkpoints
from fixtures import parity, zoo
from llm_specdec.drafters.assistant import KIND, drafter
from llm_specdec.drafters.assistant.config import FULL, SLIDING
from llm_specdec.drafters.common.language_model import load
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import Target

TOKENS, DEPTHS = 60, (1, 4)


class Reference:
    """mlx_vlm's drafter as the loop drives one."""

    kind = source = "assistant"
    taps: tuple[Tap, ...] = ()
    max_draft: int | None = None

    def __init__(self, folder: Path, target: Target, back: int) -> None:
        config = json.loads((folder / "config.json").read_text())
        self._model = gemma4_assistant.Model(gemma4_assistant.ModelConfig.from_dict(config))
        weights: Any = mx.load(str(folder / "model.safetensors"))
        self._model.load_weights(list(self._model.sanitize(weights).items()), strict=True)
        self._model.eval()
        self._target, self._back = target, back
        self._window = config["text_config"]["sliding_window"]
        # It is given no more than it may see.
        self._model.config.text_config.sliding_window = 1 << 20
        model: Any = target.model
        self._body = getattr(model, "language_model", model).model
        self.logits: list[mx.array] = []

    def start(self, token: int) -> None:
        self._model.reset(self._target.model)
        self._tokens = [token]

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._tokens += next_tokens

    def ready(self) -> bool:
        return len(self._tokens) > 1

    def propose(self, k: int, draw: Draw) -> Proposal:
        read, last = self._tokens[:-1], self._tokens[-1]
        caches = [KVCache() for layer in self._body.layers if layer.self_attn.has_kv]
        hidden = self._body(mx.array([read]), cache=caches)[:, -1:]
        kinds = {layer.layer_type: i for i, layer in enumerate(self._body.layers[: len(caches)])}
        shared = {kind: caches[i].keys_and_values() for kind, i in kinds.items()}
        shared[SLIDING] = tuple(rows[:, :, -self._window :] for rows in shared[SLIDING])
        position = len(read) - self._back
        self._model.set_shared_kv({k: shared[k] for k in (FULL, SLIDING)}, len(read), position)

        def noting(logits: mx.array) -> mx.array:
            self.logits.append(logits[0, -1])
            return mx.argmax(logits, axis=-1)

        return Proposal(self._model.draft_block(last, hidden, None, k + 1, noting)[0])

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        raise NotImplementedError


class Ours(drafter.AssistantDrafter):
    """Notes the logits that it drafts from, and the tokens that they are of."""

    noted: list[tuple[mx.array, mx.array | None]]

    def logits(self, state: mx.array) -> tuple[mx.array, mx.array | None]:
        self.noted.append(super().logits(state))
        return self.noted[-1]


def generation(target: Target, one: Any, depth: int) -> list[list[int]]:
    """What is proposed in each round."""
    proposed, propose = list[list[int]](), one.propose

    def noting(k: int, draw: Draw) -> Proposal:
        proposal: Proposal = propose(k, draw)
        proposed.append(proposal.tokens.tolist())  # type: ignore[arg-type]
        return proposal

    one.propose = noting
    cache = RollbackCache(target.model, max_draft=depth)
    request = Request([7, 8, 9, *parity.PROMPTS["short"]], TOKENS)
    for _ in Run(target, cache, one, Fixed(depth), request, PhaseTimer()).tokens():
        pass
    return proposed


def compared(
    folder: Path, name: str, clusters: bool, disguised: bool
) -> Iterator[tuple[str, int, int, float]]:
    """Rounds that are equal, of how many, and how far logits are apart."""
    if disguised:
        checkpoints.disguise(folder, name, clusters)
    else:
        zoo.write("gemma4", folder / "target", **checkpoints.target_config(name))
        raw = checkpoints.config(checkpoints.target_text(name), clusters)
        checkpoints.save(folder / "assistant", raw, checkpoints.weights(raw))
    target = load(folder / "target")
    for (back, reads), depth in product(enumerate(KIND.readings), DEPTHS):
        ours: Any = drafter.load(folder / "assistant", target, reads)
        ours.__class__, ours.noted = Ours, []
        theirs = Reference(folder / "assistant", target, back)
        one, other = (generation(target, each, depth) for each in (ours, theirs))
        pairs = zip(ours.noted, theirs.logits, strict=True)
        apart = max(_apart(logits, tokens, row) for (logits, tokens), row in pairs)
        same = sum(a == b for a, b in zip(one, other, strict=False))
        yield f"{reads}, depth {depth}", same, max(len(one), len(other)), apart


def _apart(logits: mx.array, tokens: mx.array | None, row: mx.array) -> float:
    """Of two clusters that score alike the reference may choose the other: what it leaves out has
    its lowest logit."""
    theirs = row if tokens is None else row[tokens]
    return float(mx.where(theirs > row.min(), mx.abs(logits - theirs), 0).max())


def main() -> None:
    equal = total = 0
    for name, disguised, clusters in product(checkpoints.TARGETS, (False, True), (False, True)):
        with tempfile.TemporaryDirectory() as place:
            for title, same, rounds, apart in compared(Path(place), name, clusters, disguised):
                kind = f"{'disguised' if disguised else 'random'}{', clusters' * clusters}"
                print(f"{name:8} {kind:19} {title:15} rounds equal {same} of {rounds}", end="")
                print(f", logits at most {apart:.1e} apart")
                equal, total = equal + same, total + rounds
    print(f"{equal} of {total} rounds equal")
    raise SystemExit(equal < total)


if __name__ == "__main__":
    main()
