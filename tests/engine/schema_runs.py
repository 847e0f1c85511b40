"""Random JSON schemas, a tokenizer that knows JSON, and runs of tiny models held to them.

Shared by the tests and `benchmarks.schemas`.
"""

import functools
import json
import random
from dataclasses import dataclass
from typing import Any

import jsonschema
from mlx_lm.tokenizer_utils import TokenizerWrapper

from llm_specdec.constraints import grammar, schemas
from llm_specdec.constraints.forced_completion import TokenTable
from llm_specdec.constraints.grammar import GrammarConstraint
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.drafters.mtp import MTPDrafter
from llm_specdec.engine.drafter import Drafter
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request, RunStats
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target
from llm_specdec.errors import UsageError
from tests import heads, zoo
from tests.drafters import dflash_checkpoints

LANES = ("none", "lookup", "model", "dflash", "mtp")
VOCAB = 512
PROMPT = [int(x) for x in random.Random(1).choices(range(3, VOCAB), k=24)]
EOS = 2
SAMPLE = [
    '{"name": "Ann Lee", "age": 31, "city": "Oslo", "tags": ["a", "the best of all"]}',
    '{"items": [{"id": 1, "ok": true, "score": 0.5}, {"id": 2, "ok": false, "score": -12.75}]}',
    '{"größe": null, "日本": "東京", "when": "2024-05-06", "kind": "book", "price": 19.99}',
    '[[], {}, "", 0, "one and two, and three: four", {"a": {"b": {"c": [1, 2, 3]}}}]',
]
NAMES = ("name", "age", "city", "tags", "id", "größe", "kind", "日本", 'a "quoted" key', "x")
WORDS = ("book", "film", "größte", "東京", "a", "two words", 'say "hi"', "")
PATTERNS = ("^[a-z]+-[0-9]{2,4}$", "^(ab|cd)+$", "^[A-Z]{3}$", "x", "^#[0-9a-f]{6}$")
FORMATS = ("date", "time", "date-time", "uuid", "email", "ipv4")


@functools.cache
def tokenizer() -> TokenizerWrapper:
    """Byte-level BPE of VOCAB tokens learnt from some JSON, so that tokens span its signs."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    found = Tokenizer(models.BPE(unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(SAMPLE * 4, trainer)
    return TokenizerWrapper(PreTrainedTokenizerFast(tokenizer_object=found, eos_token="</s>"))


@functools.cache
def token_table() -> TokenTable:
    return grammar.read(tokenizer(), VOCAB)


def random_schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """Any of the keywords in common use; satisfiable."""
    simple = (_string, _string, _integer, _number, _plain, _enum)
    nested = (_object, _object, _array, _any_of)
    return rng.choice(simple if depth == 0 else (*simple[::2], *nested))(rng, depth - 1)


def _string(rng: random.Random, depth: int) -> dict[str, Any]:
    low = rng.randrange(6)
    limits: list[dict[str, Any]] = [
        {},
        {"maxLength": rng.randrange(1, 12)},
        {"minLength": low, "maxLength": low + rng.randrange(12)},
        {"pattern": rng.choice(PATTERNS)},
        {"format": rng.choice(FORMATS)},
    ]
    return {"type": "string"} | rng.choice(limits)


def _integer(rng: random.Random, depth: int) -> dict[str, Any]:
    low = rng.randrange(-50, 2000)
    bounds: list[dict[str, Any]] = [
        {},
        {"minimum": low},
        {"minimum": low, "maximum": low + 90},
        {"multipleOf": 5},
    ]
    return {"type": "integer"} | rng.choice(bounds)


def _number(rng: random.Random, depth: int) -> dict[str, Any]:
    bounds: list[dict[str, Any]] = [{}, {"minimum": -1.5, "maximum": 12.25}]
    return {"type": "number"} | rng.choice(bounds)


def _plain(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"type": rng.choice(("boolean", "null", ["string", "null"]))}


def _enum(rng: random.Random, depth: int) -> dict[str, Any]:
    values = (*WORDS, 3, -1.5, None, True)
    return rng.choice(({"const": rng.choice(values)}, {"enum": rng.sample(values, 3)}))


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(NAMES, rng.randrange(1, 5))
    properties = {name: random_schema(rng, depth) for name in names}
    closed = {"additionalProperties": False} if rng.random() < 0.5 else {}
    required = [name for name in names if rng.random() < 0.7]
    return {"type": "object", "properties": properties, "required": required} | closed


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    bounds: list[dict[str, Any]] = [
        {},
        {"minItems": 1},
        {"minItems": 2, "maxItems": 4},
        {"maxItems": 3},
    ]
    return {"type": "array", "items": random_schema(rng, depth)} | rng.choice(bounds)


def _any_of(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [random_schema(rng, depth) for _ in range(2)]}


@functools.cache
def target(family: str = "qwen3") -> Target:
    return Target(*zoo.build(family, vocab_size=VOCAB))


@functools.cache
def drafter(lane: str, family: str = "qwen3") -> Drafter | None:
    ours = target(family)
    if lane == "lookup":
        return LookupDrafter()
    if lane == "model":
        model, config = zoo.build(family, vocab_size=VOCAB)
        model.update(zoo.noisy(model, 0.05))
        return ModelDrafter(Target(model, config), VOCAB)
    if lane == "dflash":
        ids = [0, len(ours.model.layers) - 1]
        return dflash_checkpoints.drafter_for(ours, 2, target_layer_ids=ids)
    if lane == "mtp":
        return MTPDrafter(heads.random_head(ours.model), ours, "final_norm")
    return None


@dataclass(frozen=True)
class Written:
    tokens: list[int]
    constraint: GrammarConstraint | None
    stats: RunStats

    @property
    def text(self) -> str:
        return str(tokenizer().decode([token for token in self.tokens if token != EOS]))

    def check(self, schema: dict[str, Any]) -> None:
        """Raises where the text is no JSON or not what the schema asks for."""
        jsonschema.validate(json.loads(self.text), schema)
        assert self.constraint is not None and self.constraint.complete


def constraint(schema: dict[str, Any], max_tokens: int) -> GrammarConstraint:
    return GrammarConstraint(schemas.grammar(schema), token_table(), VOCAB, {EOS}, max_tokens)


def room(schema: dict[str, Any], max_tokens: int) -> int:
    """`max_tokens`, or twice and more of it where no answer is as short."""
    try:
        constraint(schema, max_tokens)
    except UsageError:
        return room(schema, 2 * max_tokens)
    return max_tokens


def write(
    lane: str,
    schema: dict[str, Any] | None,
    max_tokens: int,
    sampling: Sampling | None = None,
    length: int = 4,
    family: str = "qwen3",
) -> Written:
    """One run; without a schema the model writes what it likes."""
    ours, drafts = target(family), drafter(lane, family)
    held = constraint(schema, max_tokens) if schema is not None else None
    request = Request(
        PROMPT,
        max_tokens,
        frozenset({EOS}),
        sampling or Sampling(),
        constraints=[held] if held else [],
    )
    cache = RollbackCache(ours.model, max_draft=length)
    run = Run(ours, cache, drafts, Fixed(length if drafts else 0), request, PhaseTimer())
    tokens = [token for part in run.tokens() for token in part]
    cache.close()
    return Written(tokens, held, run.stats)
