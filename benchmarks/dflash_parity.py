"""Our DFlash drafters against the PyPI package `dflash`, round for round at temperature 0.

    pip install --no-deps dflash==0.1.0
    python -m benchmarks.dflash_parity [--max-tokens 96] [--block 8] [--only tiny|smol]

A round is the same where draft tokens and kept tokens are the same. Prompts and completions stay
within the drafter's window: beyond it the package's mask and its ring buffer disagree about
the order of rows after a round that keeps one token, and its drafts are those of another context.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dflash.model_mlx as package
import mlx.core as mx
from mlx_lm.tokenizer_utils import TokenizerWrapper

from benchmarks import harness
from fixtures import dflash_checkpoints as checkpoints
from fixtures import zoo
from llm_specdec.backends import Tokens
from llm_specdec.drafters.dflash import drafter as dflash
from llm_specdec.engine.drafter import Draw, Proposal
from llm_specdec.engine.session import Session, Weights
from llm_specdec.engine.target import Target, load

Round = tuple[list[int], list[int]]  # draft tokens, kept tokens
TINY_TARGETS = ("llama", "qwen3", "qwen3_5")


class Silent(TokenizerWrapper):  # type: ignore[misc]
    """A tokenizer for the package that ends nowhere and writes nothing."""

    def __init__(self, eos: frozenset[int]) -> None:
        self.__dict__.update(_eos_token_ids=set(eos), eos_token_ids=set(eos))

    @property
    def detokenizer(self) -> Any:
        return self

    last_segment = ""

    def add_token(self, token: int) -> None: ...
    def finalize(self) -> None: ...


def load_package_drafter(folder: Path) -> Any:
    with replaced(package, "snapshot_download", lambda path, **_: Path(path)):
        return package.load_draft(str(folder))


@contextmanager
def replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def package_rounds(
    model: Any, draft: Any, prompt: list[int], max_tokens: int, block: int, eos: frozenset[int]
) -> list[Round]:
    drafts: list[list[int]] = []

    def noting(
        propose: Callable[..., Any], tokens: Callable[[Any], mx.array]
    ) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = propose(*args, **kwargs)
            drafts.append(tokens(result)[0].tolist())  # type: ignore[arg-type]
            return result

        return call

    second = isinstance(draft, package.DFlash2DraftModel)
    if second:
        noted = replaced(draft, "propose", noting(draft.propose, lambda found: found[0]))
    else:
        logits = noting(draft.compute_logits, lambda found: mx.argmax(found, axis=-1))
        noted = replaced(draft, "compute_logits", logits)
    with noted:
        kept = [
            answer.tokens
            for answer in package.stream_generate(
                model, draft, Silent(eos), mx.array(prompt), block, max_tokens + block
            )
            if answer.tokens
        ]
    return within(max_tokens, drafts, kept[1:])


class Noting:
    """Passes everything on to a drafter and notes what it proposed."""

    def __init__(self, drafter: dflash.DFlashDrafter) -> None:
        self._drafter = drafter
        self.drafts: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def propose(self, k: int, draw: Draw) -> Proposal:
        proposal = self._drafter.propose(k, draw)
        self.drafts.append(proposal.tokens.tolist())  # type: ignore[arg-type]
        return proposal


def our_rounds(
    target: Target,
    drafter: dflash.DFlashDrafter,
    prompt: list[int],
    max_tokens: int,
    block: int,
    ignore_eos: bool = False,
) -> list[Round]:
    noting: Any = Noting(drafter)
    session = Session(Weights(Path(), "dflash", Path()), target, noting)
    stream = harness.ours(session, block - 1, ignore_eos=ignore_eos)(prompt, max_tokens + block)
    kept = [list(event.ids) for event in stream if isinstance(event, Tokens)]
    return within(max_tokens, noting.drafts, kept[1:])


def within(max_tokens: int, drafts: list[list[int]], kept: list[list[int]]) -> list[Round]:
    """Rounds until `max_tokens` are kept. Runs are a block longer, as the last drafts of a run
    are cut to what may still be kept, and the package allows itself one token more."""
    found: list[Round] = []
    for pair in zip(drafts, kept, strict=False):
        if sum(len(tokens) for _, tokens in found) >= max_tokens:
            break
        found.append(pair)
    return found


def compared(
    name: str, ours: list[Round], theirs: list[Round], problems: list[str]
) -> tuple[int, int]:
    same = sum(one == two for one, two in zip(ours, theirs, strict=False))
    total = max(len(ours), len(theirs))
    if same < total:
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), same)
        problems.append(f"{name}: round {at} of {total}: {ours[at : at + 1]} {theirs[at : at + 1]}")
    return same, total


def smol(max_tokens: int, block: int, problems: list[str]) -> tuple[int, int]:
    """SmolLM2 with the DFlash 2 drafter of fixtures/, all 20 prompts."""
    folder = harness.models()
    target, model = load(folder / "smollm2"), load(folder / "smollm2").model
    drafter = dflash.load(folder / "drafters" / "dflash2", target)
    draft = load_package_drafter(folder / "drafters" / "dflash2")
    eos = frozenset(target.tokenizer.eos_token_ids)
    window = drafter.config.windows[0] or 0
    same = total = 0
    for prompt in harness.prompts(["explain", "code", "prose", "copy", "long"]):
        ids = harness.rendered(target.tokenizer, prompt.text)[: window - max_tokens - 2 * block]
        ours = our_rounds(target, drafter, ids, max_tokens, block)
        theirs = package_rounds(model, draft, ids, max_tokens, block, eos)
        found = compared(prompt.id, ours, theirs, problems)
        print(
            f"  {prompt.id:<10} {len(ids):>4} prompt tokens, rounds equal {found[0]} of {found[1]}"
        )
        same, total = same + found[0], total + found[1]
    return same, total


def tiny(max_tokens: int, problems: list[str]) -> tuple[int, int]:
    """Random DFlash and DFlash 2 checkpoints on random targets, full and sliding, all blocks."""
    layouts: dict[str, dict[str, Any]] = {
        "full": {},
        "causal": {"is_causal": True},
        "sliding": {"layer_types": ["sliding_attention"] * 2, "sliding_window": 256},
    }
    same = total = 0
    for family in TINY_TARGETS:
        for version in (1, 2):
            for layout, fields in layouts.items():
                for block in (3, 6):
                    name = f"{family} DFlash {version} {layout} block {block}"
                    ours, theirs = tiny_rounds(family, version, fields, block, max_tokens)
                    found = compared(name, ours, theirs, problems)
                    print(f"  {name:<40} rounds equal {found[0]} of {found[1]}")
                    same, total = same + found[0], total + found[1]
    return same, total


def tiny_rounds(
    family: str, version: int, fields: dict[str, Any], block: int, max_tokens: int
) -> tuple[list[Round], list[Round]]:
    (model, config), (other, _) = zoo.build(family), zoo.build(family)
    target = Target(model, config)
    width = target.embed(mx.array([0])).shape[-1]
    raw = checkpoints.config(version, hidden_size=width, vocab_size=target.vocab_size, **fields)
    raw["dflash_config"]["target_layer_ids"] = [0, len(model.layers) - 1]
    prompt = [(7 * i + 3) % target.vocab_size for i in range(40)]
    with tempfile.TemporaryDirectory() as place:
        folder = checkpoints.save(Path(place) / "drafter", raw, checkpoints.weights(raw))
        drafter, draft = dflash.load(folder, target), load_package_drafter(folder)
    return (
        our_rounds(target, drafter, prompt, max_tokens, block, ignore_eos=True),
        package_rounds(other, draft, prompt, max_tokens, block, frozenset()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--block", type=int, default=8)
    parser.add_argument("--only", choices=["tiny", "smol"])
    args = parser.parse_args()
    problems: list[str] = []
    results = {}
    if args.only != "smol":
        results["tiny random targets and drafters"] = tiny(args.max_tokens, problems)
    if args.only != "tiny":
        results["SmolLM2, 20 prompts"] = smol(args.max_tokens, args.block, problems)
    print(*problems, sep="\n")
    for name, (same, total) in results.items():
        print(f"{name}: {same} of {total} rounds equal")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
