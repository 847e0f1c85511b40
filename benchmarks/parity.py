"""Is the output the target's own? Counts and distributions, on tiny models and on SmolLM2.

    python -m benchmarks.parity [zoo] [bits] [sampled] [real] [penalties] [costs]

zoo        greedy parity with mlx-lm, every family × lane × transform × draft length × prompt
bits       the same in 16, 8, 4 and mixed bits, and faults that must be called broken
sampled    chi-square of sampled rounds against float64, and wrong rules that must be caught
real       60 prompts on SmolLM2: each lane's token ids against mlx-lm's, by SHA-256
penalties  what drafting under a repetition penalty gains from transforms on the drafter's side
costs      transforms and rollback in proportion to the target's passes

All of them without a name. Exits 1 where anything is broken.
"""

import argparse
import copy
import dataclasses
import hashlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import mlx.core as mx

from benchmarks import harness
from fixtures import chisquare, parity, zoo
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.common import language_model
from llm_specdec.drafters.table import KINDS
from llm_specdec.engine import drafting
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request, Round
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling import logits_processors
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.logits_processors import History, Sampling
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.session import Session
from llm_specdec.engine.target import Target

LANES = ("none", "lookup", "model", "mtp", "dflash")
LEADS = ("", "Answer briefly. ", "Answer as a numbered list. ", "Answer like a teacher. ")
PENALTY = 1.15
VOCABULARY = 248_320  # of Qwen3.5 to 3.8


def zoo_parity(args: argparse.Namespace) -> bool:
    """Every case of the zoo; progress on stderr."""
    outcomes: list[parity.Outcome] = []
    for family in zoo.FAMILIES:
        outcomes += map(parity.run, parity.cases([family]))
        print(family, file=sys.stderr)
    return _told(outcomes, ("family", "lane", "recipe", "length", "prompt"))


def _told(outcomes: Sequence[parity.Outcome], by: Sequence[str]) -> bool:
    for field in by:
        print(parity.table(outcomes, field), end="\n\n")
    for o in outcomes:
        if o.verdict != "identical":
            print(f"{o.verdict}: {o.case}, {o.difference}")
    return not any(o.verdict == "broken" for o in outcomes)


def bits(args: argparse.Namespace) -> bool:
    """Every family, lane and precision; then the same lane with a fault in it."""
    outcomes: list[parity.Outcome] = []
    for family in zoo.FAMILIES:
        outcomes += map(parity.run, parity.cases_in_bits([family]))
        left = [p for p in parity.PRECISIONS if not parity.computes(family, p)]
        print(family, f"not in {', '.join(left)}" if left else "", file=sys.stderr, flush=True)
    sound = _told(outcomes, ("precision", "lane", "family"))
    for name in parity.FAULTS:
        sound_cases = [c for c in parity.faulty_cases() if parity.run(c).verdict == "identical"]
        wrong = [parity.run(case, name) for case in sound_cases]
        parted = [o.verdict for o in wrong if o.verdict != "identical"]
        broken = parted.count("broken")
        print(f"{name}: {len(wrong)} runs, {len(parted)} parted, {broken} called broken")
        sound = sound and broken >= 0.99 * len(parted) > 0
    return sound


def sampled(args: argparse.Namespace) -> bool:
    sound = [chisquare.run(script) for script in chisquare.SCRIPTS]
    wrong = [chisquare.run(script) for script in chisquare.CONTROLS]
    print(chisquare.table(sound), "", "must be caught", chisquare.table(wrong), sep="\n")
    return not any(r.caught for r in sound) and all(r.caught for r in wrong)


def session(kind: str) -> Session:
    return harness.smol(kind, "smollm2-mtp" if kind == "mtp" else "smollm2")


def real_prompts(n: int) -> list[str]:
    kinds = ("explain", "code", "prose", "copy")
    texts = [prompt.text for prompt in harness.prompts(kinds)]
    return [lead + text for lead in LEADS for text in texts][:n]


def real(args: argparse.Namespace) -> bool:
    """Token ids of each lane against mlx-lm's plain path."""
    sessions = {kind: session(kind) for kind in LANES}
    texts = real_prompts(args.prompts)
    target = sessions["none"].target
    ids = [harness.rendered(target.tokenizer, text) for text in texts]
    expected = [parity.mlx_lm_tokens(target, prompt, args.tokens) for prompt in ids]
    ties: list[str] = []
    all_sound = True
    print(
        f"{'lane':8} {'prompts':>7} {'same SHA-256':>12} {'ties':>5} {'broken':>6} {'accepted':>15}"
    )
    for kind, loaded in sessions.items():
        same = broken = drafted = accepted = 0
        for i, (prompt, plain) in enumerate(zip(ids, expected, strict=True)):
            run = harness.timed(harness.ours(loaded), prompt, args.tokens)
            drafted, accepted = drafted + run.outcome.drafted, accepted + run.outcome.accepted
            if sha256(run.tokens) == sha256(plain):
                same += 1
                continue
            rounds = [Round(*passed) for passed in run.outcome.passes]
            found = parity.difference(target, prompt, plain, run.tokens, rounds)
            ties.append(f"{kind}, prompt {i}: {found}")
            broken += not (found and found.exact)
        all_sound = all_sound and not broken
        rest = len(ids) - same
        drafts = f"{accepted} of {drafted}"
        print(
            f"{kind:8} {len(ids):7} {same:12} {rest - broken:5} {broken:6} {drafts:>15}", flush=True
        )
    print(*ties, sep="\n")
    return all_sound


def sha256(tokens: Sequence[int]) -> str:
    return hashlib.sha256(b"".join(t.to_bytes(4, "little") for t in tokens)).hexdigest()


class Untransformed(DraftSampler):
    """Lends a drafter no penalties: it proposes what it would have without them."""

    def __init__(self, sampler: Sampler) -> None:
        plain = copy.copy(sampler)
        plain.sampling = dataclasses.replace(sampler.sampling, repetition_penalty=1.0)
        super().__init__(plain)


def penalties(args: argparse.Namespace) -> bool:
    """Acceptance under repetition_penalty 1.15, with and without transforms for the drafter."""
    print(f"{'lane':8} {'with':>21} {'without':>21}   accepted of drafted")
    same = True
    for kind in LANES[2:]:
        loaded = session(kind)
        cells, texts = [], []
        for sampler in (DraftSampler, Untransformed):
            with patch.object(drafting, "DraftSampler", sampler):
                runs = [
                    harness.timed(
                        harness.ours(loaded, repetition_penalty=PENALTY), prompt, args.tokens
                    )
                    for text in real_prompts(12)
                    for prompt in [harness.rendered(loaded.tokenizer, text)]
                ]
            accepted = sum(run.outcome.accepted for run in runs)
            drafted = sum(run.outcome.drafted for run in runs)
            cells.append(f"{accepted / drafted:.3f} ({accepted} of {drafted})")
            texts.append([run.tokens for run in runs])
        same = same and texts[0] == texts[1]
        print(f"{kind:8} {cells[0]:>21} {cells[1]:>21}   same text: {texts[0] == texts[1]}")
    return same


def costs(args: argparse.Namespace) -> bool:
    """The shortest of interleaved timings: other work on the machine only adds to them."""
    target = harness.smol("none").target
    cache = RollbackCache(target.model, max_draft=8)
    rng = random.Random(0)
    tokens = [rng.randrange(1000, target.vocab_size) for _ in range(2000)]
    mx.eval(target.forward(mx.array(tokens), cache), cache.arrays())
    history = History(tokens, target.vocab_size)
    mx.eval(history.everywhere, history.output)

    drafts = mx.array(tokens[:4], dtype=mx.int32)
    rows = mx.random.normal((5, target.vocab_size))

    def verify() -> None:
        mx.eval(mx.argmax(target.forward(mx.array(tokens[:5]), cache), axis=-1))
        cache.rollback(2000)

    def judge(sampling: Sampling) -> None:
        mx.eval(mx.argmax(logits_processors.penalise(rows, history, drafts, sampling), axis=-1))

    neutral, penalised = (
        partial(judge, Sampling()),
        partial(judge, Sampling(repetition_penalty=PENALTY)),
    )
    whole, plain, changed = seconds([verify, neutral, penalised])
    cost = changed - plain
    print(
        f"repetition_penalty 1.15, history 2,000: {1000 * cost:.2f} ms beside a "
        f"{1000 * whole:.1f} ms verify pass of 5 tokens ({cost / whole:.1%})"
    )
    print(
        f"\n{'hybrid target, verify':24} {'kept':>4} {'rollback ms':>11} {'forward of kept ms':>18}"
    )
    hybrid = Target(*zoo.build("qwen3_5", **HYBRID))
    for drafted, accepted in ((2, 0), (4, 1), (4, 3), (8, 4)):
        back, again = seconds(replay(hybrid, drafted + 1, accepted + 1))
        print(f"{f'1 + {drafted}':24} {accepted + 1:4} {1000 * back:11.1f} {1000 * again:18.1f}")
    sampled_rounds()
    return True


CUTS = {
    "greedy": {},
    "temperature": {"temperature": 0.6},
    "top-k 20, top-p 0.95": {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    "top-p 0.9": {"temperature": 0.6, "top_p": 0.9},
}


def sampled_rounds() -> None:
    """Rounds of 1 + 3 tokens under a few samplings, DFlash on SmolLM2 whose vocabulary is as
    large as Qwen3.8's: its own, five times over."""
    weights = harness.smol("dflash").weights
    target = language_model.load(weights.target)
    embedding = target.model.model.embed_tokens
    tiled = mx.concatenate([embedding["weight"]] * -(-VOCABULARY // target.vocab_size))
    embedding.update({"weight": tiled[:VOCABULARY]})
    mx.eval(embedding.parameters())
    target = Target(target.model, target.config, target.folder)
    session = sessions.joined(weights, target, KINDS["dflash"].load(weights, target))
    prompt = harness.rendered(target.tokenizer, real_prompts(1)[0])

    def rounds(chosen: dict[str, float]) -> Callable[[], float]:
        def run() -> float:
            request = Request(prompt, 48, sampling=Sampling(**chosen))  # type: ignore[arg-type]
            decoding = session.run(request, PhaseTimer(), draft_tokens=3)
            tokens = decoding.tokens()
            next(tokens)
            start = time.perf_counter()
            n = sum(1 for _ in tokens)
            return (time.perf_counter() - start) / n

        return run

    taken = seconds([rounds(chosen) for chosen in CUTS.values()], runs=6)
    print(f"\n{'vocabulary of 248,320':24} {'ms a round':>10} {'÷ greedy':>8}")
    for name, each in zip(CUTS, taken, strict=True):
        print(f"{name:24} {1000 * each:10.1f} {each / taken[0]:8.2f}")


HYBRID = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 12,
    "full_attention_interval": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "linear_num_value_heads": 16,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "vocab_size": 16_000,
}


def replay(target: Target, verified: int, kept: int) -> list[Callable[[], float]]:
    """Seconds of a rollback that keeps `kept` tokens, and of a forward over them."""
    cache = RollbackCache(target.model, max_draft=verified)
    mx.eval(target.forward(mx.array(list(range(64))), cache), cache.arrays())
    tokens = list(range(100, 100 + verified))

    def rollback() -> float:
        mx.eval(target.forward(mx.array(tokens), cache), cache.arrays())
        start = time.perf_counter()
        cache.rollback(64 + kept)
        mx.eval(cache.arrays())
        end = time.perf_counter()
        cache.rollback(64)
        return end - start

    def forward() -> float:
        start = time.perf_counter()
        mx.eval(target.forward(mx.array(tokens[:kept]), cache), cache.arrays())
        end = time.perf_counter()
        cache.rollback(64)
        return end - start

    return [rollback, forward]


def seconds(actions: Sequence[Callable[[], float | None]], runs: int = 25) -> list[float]:
    """Fewest seconds of each action, in turn; its own measure where it returns one."""
    taken: list[list[float]] = [[] for _ in actions]
    for _ in range(runs):
        for i, action in enumerate(actions):
            start = time.perf_counter()
            own = action()
            taken[i].append(time.perf_counter() - start if own is None else own)
    return [min(times) for times in taken]


PARTS = {
    "zoo": zoo_parity,
    "bits": bits,
    "sampled": sampled,
    "real": real,
    "penalties": penalties,
    "costs": costs,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part")
    parser.add_argument("--prompts", type=int, default=60, help="for `real`")
    parser.add_argument("--tokens", type=int, default=64, help="for `real` and `penalties`")
    args = parser.parse_args()
    sound = []
    for name in args.parts or PARTS:
        print(f"== {name}")
        sound.append(PARTS[name](args))
        print()
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
