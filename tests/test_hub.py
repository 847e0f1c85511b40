"""Names become folders; what the hub refuses becomes one clear line.

The cassettes hold what the real client said to tests/support/hub_server.py, which re-records them.
"""

import errno
import subprocess
import sys

import pytest

from llm_specdec import hub
from llm_specdec.errors import HubError
from tests.support.hub_server import ENDPOINT


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """An empty cache, the recorded endpoint, no token, one download at a time."""
    from huggingface_hub import constants, hf_api

    monkeypatch.setattr(hf_api.api, "endpoint", ENDPOINT)  # made at the client's first import
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "ENDPOINT", ENDPOINT)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        ENDPOINT + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture(scope="module")
def vcr_config():
    return {"filter_headers": ["authorization", "user-agent", "x-request-id"]}


@pytest.fixture
def offline(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def no_network(monkeypatch):
    """Nothing listens where the hub should be."""
    from huggingface_hub import constants, hf_api

    monkeypatch.setattr(hf_api.api, "endpoint", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")


def one_line(caught):
    text = str(caught.value)
    assert "\n" not in text and "Traceback" not in text
    return text


@pytest.mark.vcr
def test_a_repository_becomes_a_folder_with_the_models_files():
    folder = hub.locate("lab/wren-1b-4bit")
    names = {path.name for path in folder.iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors"}


@pytest.mark.vcr
def test_what_was_fetched_once_is_found_without_network(offline):
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = False
    fetched = hub.locate("lab/wren-1b-4bit")
    constants.HF_HUB_OFFLINE = True
    assert hub.locate("lab/wren-1b-4bit") == fetched
    assert hub.locate("lab/wren-1b-4bit", offline=True) == fetched


@pytest.mark.vcr
def test_a_card_alone_is_no_model_at_prompt_time():
    hub.locate("lab/wren-1b-4bit", files=hub.CARD_FILES)
    with pytest.raises(HubError) as caught:
        hub.locate("lab/wren-1b-4bit", offline=True)
    assert "not (wholly) downloaded" in one_line(caught)


@pytest.mark.vcr
def test_cards_are_followed_to_the_base():
    cards = hub.read_card("lab/wren-1b-4bit")
    assert list(cards) == ["lab/wren-1b-4bit", "acme/wren-1b"]
    assert cards["lab/wren-1b-4bit"]["generation_config.json"] is None
    assert cards["acme/wren-1b"]["generation_config.json"] == {"temperature": 0.7}


@pytest.mark.vcr
def test_a_missing_base_ends_its_branch_and_a_renamed_one_is_followed():
    cards = hub.read_card("lab/orphan-1b")
    assert list(cards) == ["lab/orphan-1b", "acme/wren-old"]
    assert cards["lab/orphan-1b"]["generation_config.json"] == '{"temperature": 0.3,}'
    assert "Wren 1B" in cards["acme/wren-old"]["README.md"]


def test_a_card_is_read_although_its_base_is_out_of_reach(tmp_path, no_network):
    (tmp_path / "README.md").write_text("---\nbase_model: acme/wren-1b\n---\n# Mine\n")
    assert list(hub.read_card(str(tmp_path))) == [str(tmp_path)]


@pytest.mark.vcr
def test_a_missing_repository_is_one_clear_line():
    with pytest.raises(HubError) as caught:
        hub.locate("acme/gone-1b")
    assert "no repository acme/gone-1b" in one_line(caught)


@pytest.mark.vcr
def test_a_gated_repository_says_how_to_get_in():
    with pytest.raises(HubError) as caught:
        hub.locate("lab/gated-1b")
    assert "gated" in one_line(caught) and "hf auth login" in one_line(caught)


@pytest.mark.vcr
def test_a_renamed_repository_names_its_new_name():
    with pytest.raises(HubError) as caught:
        hub.locate("acme/wren-old")
    assert one_line(caught) == "acme/wren-old is now called acme/wren-1b: use that name"


def test_offline_says_so(offline):
    with pytest.raises(HubError) as caught:
        hub.locate("acme/wren-1b")
    assert "go online" in one_line(caught)


def test_no_network_says_so(no_network):
    with pytest.raises(HubError) as caught:
        hub.locate("acme/wren-1b")
    assert "out of reach" in one_line(caught)


@pytest.mark.parametrize("name", ["./gone", "/nowhere/gone", "~/gone-too", "../gone"])
def test_a_path_is_never_asked_from_the_hub(name, no_network):
    with pytest.raises(HubError) as caught:
        hub.locate(name)
    assert "no folder" in one_line(caught)


@pytest.mark.parametrize("name", ["~nobody-here/x", "/" + "x" * 300, "x" * 300, "./" + "x" * 5000])
def test_what_the_system_takes_for_no_path_is_one_line(name, no_network):
    with pytest.raises(HubError) as caught:
        hub.locate(name)
    assert name[:700] in one_line(caught)  # a longer message loses its middle


def test_a_card_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    card = tmp_path / "README.md"
    card.write_text("# Mine")

    def refuse(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(hub, "read", refuse)
    with pytest.raises(HubError) as caught:
        hub.read_card(str(tmp_path))
    assert one_line(caught) == f"{card} cannot be read (Permission denied)"


@pytest.mark.parametrize("text", ['{"temperature": NaN}', '{"top_p": -Infinity}', "[" * 100_000])
def test_a_generation_config_that_is_no_json_is_given_as_text(tmp_path, text):
    (tmp_path / "generation_config.json").write_text(text)
    assert hub.read_card(str(tmp_path))[str(tmp_path)]["generation_config.json"] == text


def test_a_folder_with_a_repositorys_name_is_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme" / "wren-1b").mkdir(parents=True)
    assert hub.locate("acme/wren-1b").samefile(tmp_path / "acme" / "wren-1b")


@pytest.mark.parametrize("name", ["wren", "a/b/c", "acme/", "acme/wren 1b", ""])
def test_what_is_no_name_at_all_is_refused(name):
    with pytest.raises(HubError) as caught:
        hub.locate(name)
    assert "OWNER/NAME" in one_line(caught)


def test_importing_hub_imports_no_client():
    code = "import sys, llm_specdec.hub; sys.exit('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_card_is_fetched_without_bars_and_a_model_with_them(tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled

    disabled = []

    def fetched(repo, **options):
        disabled.append(are_progress_bars_disabled())
        return str(tmp_path)

    monkeypatch.setattr(hub, "_current_name", lambda repo: repo)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    hub.locate("o/n", files=hub.CARD_FILES)
    hub.locate("o/n")
    assert disabled == [True, False]
