"""Ids without a token get no chance, in no lane, and text and tokenizer take them out too."""

import json
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from fixtures import dflash_checkpoints, heads, zoo
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.common import language_model
from llm_specdec.drafters.recognise import read
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.session import Weights
from llm_specdec.engine.tokenizer import tokenizer_of, vocabulary_of
from llm_specdec.prompting.text import TextStream

TOKENS, HOLES = 61, (7, 8, 30, 44)  # of zoo.VOCAB rows
PROMPT = [3, 14, 15, 9, 26, 5, 35, 3, 14, 15, 9]
LENGTH = 40
LANES = ("none", "lookup", "model", "mtp", "dflash", "dflash 2", "dflash, own head")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A target with a head, and with rows that no token belongs to."""
    found: Path = tmp_path_factory.mktemp("vocabulary") / "target"
    heads.write(heads.CASES["llama"], found)
    zoo.write_tokenizer(found, TOKENS, HOLES)
    return found


@pytest.fixture(scope="module")
def session(folder, tmp_path_factory):
    """By lane; the drafters have more rows than the target, or their own holes."""

    def loaded(lane):
        kind = lane.split()[0].rstrip(",")
        drafter = tmp_path_factory.mktemp("drafter") / "drafter"
        if kind == "model":
            zoo.write("qwen3", drafter, vocab_size=zoo.VOCAB + 32, seed=5)
        if kind == "dflash":
            raw = dflash_checkpoints.config(
                2 if "2" in lane else 1,
                hidden_size=64,
                vocab_size=zoo.VOCAB,
                target_layer_ids=[0, 1],
                num_target_layers=2,
            )
            tensors = dflash_checkpoints.weights(raw)
            if "own" in lane:
                tensors |= dflash_checkpoints.smaller_head(raw, 80)
            dflash_checkpoints.save(drafter, raw, tensors)
        return sessions.load(Weights(folder, kind, drafter if drafter.is_dir() else None))

    return loaded


def written(session, sampling=None, seed=0):
    request = Request(PROMPT, LENGTH, sampling=sampling or Sampling(), seed=seed)
    run = session.run(request, PhaseTimer(), draft_tokens=4)
    return [token for part in run.tokens() for token in part], run.stats


def reference(folder):
    """Greedy text of mlx-lm's own model, ids without a token forbidden by hand."""
    model = language_model.load(folder).model
    never = [i for i in range(zoo.VOCAB) if i >= TOKENS or i in HOLES]
    tokens, cache = mx.array([PROMPT]), make_prompt_cache(model)
    found: list[int] = []
    for _ in range(LENGTH):
        row = model(tokens, cache=cache)[0, -1]
        row[mx.array(never)] = -mx.inf
        found.append(cast(int, mx.argmax(row).item()))
        tokens = mx.array([found[-1:]])
    return found


@pytest.mark.parametrize("lane", LANES)
def test_greedy_text_is_the_targets_among_the_ids_with_a_token(folder, session, lane):
    text, stats = written(session(lane))
    assert text == reference(folder)
    assert lane in ("none", "lookup") or stats.drafted > LENGTH / 2


@pytest.mark.parametrize("lane", LANES)
def test_no_id_without_a_token_is_ever_drawn(session, lane):
    hot = Sampling(temperature=50.0)
    drawn = {token for seed in range(5) for token in written(session(lane), hot, seed)[0]}
    assert len(drawn) > 40
    assert not drawn & {*HOLES} and max(drawn) < TOKENS


def test_a_penalty_or_a_bias_gives_them_no_chance_either(session):
    odd = Sampling(temperature=50.0, repetition_penalty=1.3, logit_bias={HOLES[0]: 100.0})
    drawn = {token for seed in range(5) for token in written(session("none"), odd, seed)[0]}
    assert not drawn & {*HOLES} and max(drawn) < TOKENS


def test_files_and_loaded_tokenizer_give_the_same_table(folder):
    table = vocabulary_of(folder)
    assert table == read(folder).vocabulary
    assert (table.rows, table.size, table.holes, table.beyond) == (96, TOKENS, HOLES, ())
    assert table.ends == (2,)
    assert table.notes == ("4 ids (first 7) without a token among the others: never drawn",)


def test_text_with_ids_after_a_hole_is_whole(folder):
    tokenizer = tokenizer_of(folder)
    ids = [i for i in range(3, TOKENS) if i not in HOLES]
    stream = TextStream(tokenizer.detokenizer)
    for token in ids:
        stream.feed(token)
    text = "".join(piece.text for piece in [*stream.take(), *stream.finish()])
    assert text == tokenizer.decode(ids).strip()


SPM = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}


def with_decoder(folder, decoder, **steps):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "decoder": decoder, **steps}))


def sentencepiece(folder, holes):
    """Pieces as SentencePiece spells them."""
    words = ["<unk>", "<s>", "</s>", "<0x0A>", "▁the", "▁cat", "▁", "s", "a", "t"]
    vocab = {word: i for i, word in enumerate(words) if i not in holes}
    vocab |= {"▁far": 20, "<0xC3>": 21, "<0xA9>": 22}
    zoo.write_tokenizer(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"] |= {"vocab": vocab, "byte_fallback": True}
    path.write_text(json.dumps(content | {"pre_tokenizer": None, "decoder": SPM}))


def streamed(tokenizer, ids, stop=()):
    stream = TextStream(tokenizer.detokenizer, stop)
    for token in ids:
        if stream.feed(token):
            break
    return "".join(piece.text for piece in [*stream.take(), *stream.finish()])


def test_a_sentencepiece_tokenizer_with_holes_loads_and_streams(tmp_path):
    zoo.write("llama", tmp_path)
    sentencepiece(tmp_path, holes=(6, 8))
    tokenizer = tokenizer_of(tmp_path)
    assert streamed(tokenizer, [4, 5, 7, 20, 21, 22]) == "the cats faré"
    assert vocabulary_of(tmp_path).holes == (6, 8, *range(10, 20))


@pytest.mark.parametrize("decoder", [SPM, None, {"type": "Fuse"}], ids=["spm", "none", "fuse"])
@pytest.mark.parametrize("nested", [False, True])
def test_pieces_that_spell_bytes_are_read_as_bytes_whatever_the_decoder(tmp_path, decoder, nested):
    zoo.write("llama", tmp_path)
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    pre = {"type": "Sequence", "pretokenizers": [step]} if nested else step
    with_decoder(tmp_path, decoder, pre_tokenizer=pre)
    tokenizer = tokenizer_of(tmp_path)
    ids = tokenizer.encode("ab", add_special_tokens=False)
    ids += tokenizer.convert_tokens_to_ids(["Ġ", "c", "Ġ", "d"])
    assert tokenizer.decode(ids) == "ab c d"
    assert streamed(tokenizer, ids) == "ab c d"
    assert streamed(tokenizer, ids, stop=["c d"]) == "ab "
