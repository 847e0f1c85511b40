import pytest

from llm_specdec.errors import UsageError
from llm_specdec.registry import Pairing
from llm_specdec.settings import resolve
from llm_specdec.setup import Setup


def setup(**options):
    pairing = Pairing("p", "a/target", settings={"context": 600})
    return Setup(pairing, None, resolve(pairing, None, options=options))


def test_the_context_is_the_setting_and_never_more_than_the_model_was_made_for():
    assert setup().context(8192) == 600
    assert setup(context=8192).context(8192) == 8192
    with pytest.raises(UsageError, match=r"context 8193 \(-o context\) is more than the 8192"):
        setup(context=8193).context(8192)
    with pytest.raises(UsageError, match=r"context 600 \(specdec.toml\)"):
        setup().context(512)


def test_without_a_setting_the_context_is_the_models_own():
    pairing = Pairing("p", "a/target")
    assert Setup(pairing, None, resolve(pairing)).context(512) == 512
