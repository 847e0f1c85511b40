"""What is refused before a model runs, and what it is warned of: ids, positions."""

import importlib
import json
from dataclasses import asdict

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from fixtures import zoo
from llm_specdec.backends import Notice, Request, Result, execute, plan
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import resolve

POSITIONS = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """table: 64 learned positions. yarn: trained at 64 tokens, made for 256. plain: made for 64.
    All with a tokenizer of more ids than rows."""
    folder = tmp_path_factory.mktemp("models")
    gpt2(folder / "table")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": POSITIONS}
    for name, scaling in (("yarn", yarn), ("plain", None)):
        changes = {"max_position_embeddings": POSITIONS, "rope_scaling": scaling}
        zoo.write("llama", folder / name, **changes)
    for name in ("table", "yarn", "plain"):
        zoo.write_tokenizer(folder / name, zoo.VOCAB)
        path = folder / name / "tokenizer.json"
        content = json.loads(path.read_text())
        far = {**content["added_tokens"][0], "id": zoo.VOCAB, "content": "<far>"}
        content["added_tokens"].append(far)
        path.write_text(json.dumps(content))
    return folder


def gpt2(folder):
    module = importlib.import_module("mlx_lm.models.gpt2")
    args = module.ModelArgs("gpt2", POSITIONS, 64, 2, 2, POSITIONS, 1e-5, zoo.VOCAB)
    mx.random.seed(1)
    weights = dict(tree_flatten(module.Model(args).parameters()))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(asdict(args)))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})


@pytest.fixture
def run(llm_user, folder):
    def ran(name, request, **options):
        pairing = Pairing(name, str(folder / name), drafter="lookup", kind="lookup")
        values = {"draft_tokens": 3, "temperature": 0} | options
        planned = plan(pairing, None, resolve(pairing, None, options=values))
        return list(execute(planned, request))

    return ran


def warnings(events):
    return [
        event.text for event in events if isinstance(event, Notice) and event.level == "warning"
    ]


def completion(events):
    [result] = [event for event in events if isinstance(event, Result)]
    return result.completion_ids


@pytest.mark.parametrize(
    "request_", [Request(tokens=[3, zoo.VOCAB]), Request([{"role": "user", "content": "a<far>"}])]
)
def test_a_token_that_the_model_has_no_row_for_is_refused_with_both_figures(run, request_):
    with pytest.raises(UsageError, match=r"token of id 96, .* embedding has 96 rows"):
        run("plain", request_)


def test_a_table_of_positions_is_the_limit_whatever_is_set(run):
    with pytest.raises(UsageError, match=r"context 65 \(-o context\) is more than the 64 pos"):
        run("table", Request(tokens=[3] * 8, max_tokens=4), context=65)
    with pytest.raises(ContextError, match=r"has 64 tokens, the context of table 64: shorten it$"):
        run("table", Request(tokens=[3] * 64, max_tokens=4))


def test_an_answer_ends_at_the_last_position(run):
    events = run("table", Request(tokens=[3, 4] * 5, max_tokens=500, ignore_eos=True))
    assert len(completion(events)) == POSITIONS - 10
    assert warnings(events) == []


def test_scaled_positions_need_no_setting(run):
    events = run("yarn", Request(tokens=[3, 4] * 5, max_tokens=500, ignore_eos=True))
    assert len(completion(events)) == 4 * POSITIONS - 10
    assert warnings(events) == []


def test_the_context_may_be_set_beyond_what_the_model_was_made_for(run):
    request = Request(tokens=[3, 4] * 40, max_tokens=500, ignore_eos=True)
    with pytest.raises(ContextError, match="has 80 tokens"):
        run("plain", request)
    events = run("plain", request, context=100)
    assert len(completion(events)) == 20
    [warning] = warnings(events)
    assert "context 100 is more than the 64 tokens" in warning
