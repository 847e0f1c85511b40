from pathlib import Path

import pytest

from llm_specdec.checkpoint import Positions, positions_of
from llm_specdec.checkpoint.files import Tensor

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def positions(config, **tensors):
    names = {name.replace("__", "."): shape for name, shape in tensors.items()}
    return positions_of(config, {n: Tensor(n, "F16", s, 0, Path("x"), 0) for n, s in names.items()})


@pytest.mark.parametrize(
    ("config", "native"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "seq_length": 2048}, 4096),
        ({"n_positions": 1024}, 1024),
        ({"n_ctx": 512}, 512),
        ({"max_seq_len": 256}, 256),
        ({"seq_length": 128}, 128),
        ({"max_position_embeddings": None, "n_ctx": "many"}, None),
        ({}, None),
    ],
)
def test_the_length_goes_by_several_names(config, native):
    assert positions(config) == Positions(native)


@pytest.mark.parametrize(
    ("config", "native"),
    [
        ({"max_position_embeddings": 64, "rope_scaling": YARN}, 256),
        ({"max_position_embeddings": 256, "rope_scaling": YARN}, 256),
        ({"max_position_embeddings": 64, "rope_parameters": {"full_attention": YARN}}, 256),
        # Llama 3 is trained on beyond its factor.
        ({"max_position_embeddings": 512, "rope_scaling": {**YARN, "rope_type": "llama3"}}, 512),
        ({"max_position_embeddings": 64, "rope_scaling": {"rope_type": "linear", "factor": 8}}, 64),
        ({"max_position_embeddings": 64, "rope_scaling": {**YARN, "factor": 1e99}}, 64),
        ({"max_position_embeddings": 64, "rope_scaling": {**YARN, "factor": None}}, 64),
        ({"max_position_embeddings": 64, "rope_scaling": "yarn"}, 64),
    ],
)
def test_scaled_positions_count_where_the_config_says_what_was_scaled(config, native):
    assert positions(config) == Positions(native)


def test_a_table_of_positions_is_all_there_is():
    assert positions({"n_positions": 64}, wpe__weight=(64, 8)) == Positions(64, hard=True)
    assert positions({}, transformer__wpe__weight=(32, 8)) == Positions(32, hard=True)
    opt = {"max_position_embeddings": 64}  # its table has two rows more
    assert positions(opt, model__embed_positions__weight=(66, 8)) == Positions(64, hard=True)
    vision = positions(opt, vision_tower__embed_positions__weight=(16, 8))
    assert vision == Positions(64)
