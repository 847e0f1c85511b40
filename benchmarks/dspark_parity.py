"""Our DSpark drafters against mlx-dspark's, round for round at temperature 0.

    pip install --no-deps mlx-dspark==0.20.3 mlx-vlm==0.7.10
    python -m benchmarks.dspark_parity [--max-tokens 96]
    python -m benchmarks.dspark_parity --record    # rewrites tests/drafters/dspark/recorded.json

Tiny random checkpoints on tiny random targets, in the layouts that both run. The bias heads
"gated" and "rnn" are not among them: mlx-dspark 0.20.3 knows "vanilla" alone.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from fixtures import dspark_checkpoints as checkpoints
from fixtures import zoo
from fixtures.dflash_checkpoints import HIDDEN, LAYER_IDS, Lender, save
from llm_specdec.drafters.dspark import drafter as dspark
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import Target

TARGETS = ("llama", "qwen3", "qwen3_5")
LAYOUTS: dict[str, dict[str, Any]] = {
    "DeepSpec": {},
    "DeepSpec, anchor reserved": {"sample_from_anchor": False},
    "LiquidAI": {"rope_is_neox_style": False},
    "SpecForge, YaRN": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 10000.0,
        },
    },
    "DeepSpec, partial rotation copied": {"partial_rotary_factor": 0.25},
    "Gemma 4's layers": {},
    "Gemma 4's layers, own values": {"attention_k_eq_v": False},
    "Qwen3.5's layers": {},
}
BODIES = {
    "Gemma 4's layers": checkpoints.gemma,
    "Gemma 4's layers, own values": checkpoints.gemma,
    "Qwen3.5's layers": checkpoints.gated,
}
RECORDED = Path(__file__).parents[1] / "tests" / "drafters" / "dspark" / "recorded.json"
CONTEXT, PENDING = 23, 11


def raw_config(layout: str, **changes: Any) -> dict[str, Any]:
    made = BODIES.get(layout, checkpoints.config)
    raw = made(**{**LAYOUTS[layout], "enable_confidence_head": False, **changes})
    if layout.startswith("SpecForge"):
        inner = {key: raw.pop(key) for key in ("target_layer_ids", "mask_token_id")}
        raw["dflash_config"] = {**inner, "projector_type": "dspark"}
    return raw


def tensors_of(raw: dict[str, Any], lender: Any) -> dict[str, Any]:
    """With copies of the target's embedding and output matrix, which mlx-dspark asks for."""
    flat = {**raw, **(raw.get("dflash_config") or {})}
    return {
        **checkpoints.weights(flat),
        "embed_tokens.weight": lender.embedding,
        "lm_head.weight": lender.matrix,
    }


class Reference:
    """mlx-dspark's drafter of a folder."""

    def __init__(self, folder: Path) -> None:
        from mlx_dspark.config import DSparkConfig
        from mlx_dspark.model import DSparkDrafter

        self.config = DSparkConfig.from_json(folder / "config.json")
        self.drafter = DSparkDrafter(self.config)
        stored = mx.load(str(folder / "model.safetensors"))
        if self.config.offset_rms_norm:  # as `mlx_dspark.load` does
            stored = {k: v + 1 if "norm" in k else v for k, v in stored.items()}  # type: ignore[union-attr]
        self.drafter.load_weights(list(stored.items()))  # type: ignore[union-attr]
        self.caches = self.drafter.make_ctx_cache()
        self.rows = 0

    def absorb(self, taps: mx.array) -> None:
        self.drafter.update_context(taps[None], self.rows, self.caches)
        self.rows += taps.shape[0]

    def logits(self, pending: int, k: int) -> mx.array:
        masks = [self.config.mask_token_id] * (self.config.block_size - 1)
        embedded = self.drafter.embed(mx.array([[pending, *masks]]))
        hidden = self.drafter.backbone(embedded, self.rows, self.caches)
        found: mx.array = self.drafter.compute_logits(self.drafter.head_slice(hidden, k))[0]
        return found

    def draft(self, pending: int, k: int) -> list[int]:
        found: list[int] = self.drafter.sample_block(self.logits(pending, k), pending).tolist()
        return found


def taps_of(layout: str) -> np.ndarray:
    rng = np.random.default_rng(len(layout))
    return rng.normal(0, 1, (CONTEXT, HIDDEN * len(LAYER_IDS))).astype(np.float32)


def record() -> None:
    """Logits and drafts of mlx-dspark for each layout, before the bias is added."""
    found = {}
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as place:
            raw = raw_config(layout)
            reference = Reference(save(Path(place) / "d", raw, tensors_of(raw, Lender())))
        reference.absorb(mx.array(taps_of(layout)))
        k = reference.drafter.max_draft
        found[layout] = {
            "drafts": reference.draft(PENDING, k),
            "logits": np.array(reference.logits(PENDING, k)).astype(float).round(5).tolist(),
        }
    RECORDED.write_text(json.dumps({"by": "mlx-dspark 0.20.3", "layouts": found}) + "\n")


class TargetCopy:
    """A target's embedding and output matrix as arrays."""

    def __init__(self, target: Target, width: int) -> None:
        everything = mx.arange(target.vocab_size)
        self.embedding = np.array(target.embed(everything).astype(mx.float32))
        self.matrix = np.array(target.head(mx.eye(width)).astype(mx.float32)).T


def rounds_equal(family: str, layout: str, max_tokens: int) -> tuple[int, int]:
    """Each proposal of a whole generation, made again by mlx-dspark from the same hidden states."""
    target = Target(*zoo.build(family))
    width = target.embed(mx.array([0])).shape[-1]
    ids = [0, len(target.model.layers) - 1]
    raw = raw_config(layout, hidden_size=width, vocab_size=target.vocab_size, target_layer_ids=ids)
    with tempfile.TemporaryDirectory() as place:
        folder = save(Path(place) / "d", raw, tensors_of(raw, TargetCopy(target, width)))
        drafter, reference = dspark.load(folder, target), Reference(folder)
    ours: list[list[int]] = []
    theirs: list[list[int]] = []
    longest = reference.drafter.max_draft
    extend, propose = drafter.extend, drafter.propose

    def extending(next_tokens: Any, hidden: Any) -> None:
        reference.absorb(mx.concatenate([hidden[tap] for tap in drafter.taps], axis=-1))
        extend(next_tokens, hidden)

    def proposing(k: int, draw: Any) -> Any:
        theirs.append(reference.draft(drafter._pending, min(k, longest)))
        proposal = propose(k, draw)
        ours.append(proposal.tokens.tolist())  # type: ignore[arg-type]
        return proposal

    drafter.extend, drafter.propose = extending, proposing  # type: ignore[method-assign]
    prompt = [(7 * i + 3) % target.vocab_size for i in range(40)]
    cache = RollbackCache(target.model, max_draft=longest)
    run = Run(target, cache, drafter, Fixed(longest), Request(prompt, max_tokens), PhaseTimer())
    for _ in run.tokens():
        pass
    return sum(one == two for one, two in zip(ours, theirs, strict=True)), len(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    if args.record:
        return record()
    same = total = 0
    for family in TARGETS:
        for layout in LAYOUTS:
            found = rounds_equal(family, layout, args.max_tokens)
            print(f"  {family:<8} {layout:<34} rounds equal {found[0]} of {found[1]}")
            same, total = same + found[0], total + found[1]
    print(f"{same} of {total} rounds equal")
    raise SystemExit(0 if same == total else 1)


if __name__ == "__main__":
    main()
