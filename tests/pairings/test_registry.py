import subprocess
import sys

import pytest
import tomlkit

from llm_specdec.drafters.table import folder_kinds
from llm_specdec.errors import RegistryError, UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import reading
from tests.support.steps import steps_of

WHOLE = """\
# mine
hide_helpers = false

[pairings.q]
target = "a/target"
drafter = "a/drafter"   # the small one
kind = "model"
aliases = ["fast"]

[pairings.q.settings]
temperature = 1

[pairings.q.profiles.reason]
top_p = 0.95
deviations = { top_p = "measured" }
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "specdec.toml"


def load(path, text):
    path.write_text(text)
    return registry.load(path)


def test_a_missing_file_is_an_empty_registry(path):
    assert registry.load(path).pairings == {}
    assert not path.exists()


def test_the_file_becomes_pairings_and_profiles(path):
    found = load(path, WHOLE)
    pairing = found.pairings["q"]
    assert not found.hide_helpers
    assert (pairing.target, pairing.drafter, pairing.kind) == ("a/target", "a/drafter", "model")
    assert pairing.draft_tokens == "auto"
    assert pairing.settings == {"temperature": 1.0}
    assert pairing.profiles["reason"] == registry.Profile({"top_p": 0.95}, {"top_p": "measured"})
    assert pairing.where("profiles", "reason", "top_p") == "specdec.toml:14"
    assert pairing.where("settings", "top_k") == "specdec.toml:10"


def test_ids_are_the_pairing_and_its_profiles(path):
    found = load(path, WHOLE)
    pairing = found.pairings["q"]
    assert found.ids() == {"q": (pairing, None), "q/reason": (pairing, "reason")}
    assert found.find("fast") == (pairing, None)
    assert found.find("q/reason") == (pairing, "reason")


def test_a_profile_named_default_is_what_the_bare_name_uses(path):
    found = load(path, '[pairings.q]\ntarget = "t"\nprofiles.default.top_k = 20\n')
    assert found.find("q")[1] == "default"
    assert found.find("q/default")[1] == "default"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("temperature = 9", "a number from 0 to 5"),
        ("temperature = true", "a number from 0 to 5"),
        ("temprature = 1", "did you mean temperature"),
    ],
)
def test_a_wrong_value_names_file_line_and_key_and_spares_the_others(path, line, message):
    text = f'[pairings.bad]\ntarget = "t"\n\n[pairings.bad.settings]\n{line}\n'
    found = load(path, text + '\n[pairings.good]\ntarget = "t"\n')
    assert list(found.pairings) == ["good"]
    key = line.split()[0]
    assert found.problems["bad"].startswith(f"{path}:5: pairings.bad.settings.{key}: ")
    assert message in found.problems["bad"]
    with pytest.raises(RegistryError, match=r"specdec\.toml:5"):
        found.find("bad/any")


KINDS = " or ".join(folder_kinds())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target = 1", ":2: pairings.p.target: must be a text"),
        ("", ":1: pairings.p: target is missing"),
        ('target = "t"\nenabled = "yes"', ":3: pairings.p.enabled: must be true or false"),
        ('target = "t"\ndrafter = "a/b"', f"kind: must be {KINDS}"),
        ('target = "t"\ndrafter = "mtp"\nkind = "model"', ":4: pairings.p.kind: must be mtp"),
        ('target = "t"\ntraget = "t"', ":3: pairings.p.traget: unknown key"),
        ('target = "t"\naliases = ["a/b"]', "'a/b' is no name"),
        ('target = "t"\nprofiles.x.top_k = -1', ":3: pairings.p.profiles.x.top_k: top_k must"),
        ('target = "t"\nprofiles.x = 1', ":3: pairings.p.profiles.x: must be a table"),
        ('target = "t"\ndrafter_bits = 5', ":3: pairings.p.drafter_bits: must be 4 or 8, not 5"),
    ],
)
def test_a_broken_pairing_is_a_problem_with_its_place(path, text, message):
    found = load(path, f"[pairings.p]\n{text}\n")
    assert found.pairings == {}
    assert message in found.problems["p"]


def test_one_name_cannot_stand_for_two_pairings(path):
    found = load(path, '[pairings.a]\ntarget = "t"\naliases = ["b"]\n[pairings.b]\ntarget = "t"\n')
    assert list(found.pairings) == ["a"]
    assert "'b' already stands for pairing a" in found.problems["b"]


@pytest.mark.parametrize("table", ['target = "t"', 'target = "t"\naliases = ["{}a"]', "target = 1"])
def test_four_times_the_pairings_are_four_times_the_work(path, table):
    def parse(n):
        text = "".join(f"[pairings.p{i}]\n{table.format(f'p{i}')}\n" for i in range(n))
        return steps_of(lambda: reading.parse(text, path))

    assert parse(240) < 4.2 * parse(60)


@pytest.mark.parametrize("text", ["[pairings", 'a = "', "pairings = 3", "x = 1", "\x00"])
def test_a_file_that_cannot_be_read_says_where(path, text):
    with pytest.raises(RegistryError, match=r"specdec\.toml.*"):
        load(path, text)


def test_a_file_that_is_no_text_is_one_line(path):
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RegistryError, match="cannot be read"):
        registry.load(path)


def test_unknown_ids_say_what_there_is(path):
    found = load(path, WHOLE)
    with pytest.raises(UsageError, match="there are q"):
        found.find("z")
    with pytest.raises(UsageError, match="no profile 'z': it has reason"):
        found.find("q/z")
    with pytest.raises(UsageError):
        found.pairing("q/reason")


def test_an_edit_keeps_comments_and_order(path):
    path.write_text(WHOLE)
    with registry.edit(path) as document:
        document["pairings"]["q"]["settings"]["temperature"] = 0.5
    assert path.read_text() == WHOLE.replace("temperature = 1", "temperature = 0.5")


def test_an_edit_keeps_line_ends_mode_and_link(tmp_path, path):
    real = tmp_path / "dotfiles.toml"
    real.write_bytes(b'[pairings.q]\r\ntarget = "t"\r\n')
    real.chmod(0o640)
    path.symlink_to(real)
    with registry.edit(path) as document:
        document["pairings"]["q"]["target"] = "u"
    assert path.is_symlink()
    assert real.read_bytes() == b'[pairings.q]\r\ntarget = "u"\r\n'
    assert real.stat().st_mode & 0o777 == 0o640


def test_an_edit_that_fails_writes_nothing(path):
    path.write_text(WHOLE)
    with pytest.raises(ZeroDivisionError), registry.edit(path) as document:
        document["pairings"]["q"]["target"] = "u"
        raise ZeroDivisionError
    with pytest.raises(RegistryError, match="nothing was written"), registry.edit(path) as document:
        document["pairings"]["q"]["enabled"] = "no"
    assert path.read_text() == WHOLE
    assert {p.name for p in path.parent.iterdir()} <= {path.name, path.name + ".lock"}


def test_a_new_file_is_for_its_owner_alone(path):
    with registry.edit(path) as document:
        document["hide_helpers"] = True
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RegistryError, match="cannot be written"),
        registry.edit(tmp_path / "file" / "specdec.toml"),
    ):
        pass


def test_a_broken_pairing_does_not_stop_edits_of_others(path):
    path.write_text(WHOLE + "\n[pairings.bad]\n")
    with registry.edit(path) as document:
        document["pairings"]["q"]["enabled"] = False
    assert not registry.load(path).pairings["q"].enabled


WRITER = """
import sys
from pathlib import Path
from llm_specdec.pairings import registry
path, who = Path(sys.argv[1]), sys.argv[2]
for i in range(15):
    with registry.edit(path) as document:
        table = document.setdefault("pairings", {})
        table[f"{who}{i}"] = {"target": "t"}
"""


def test_two_processes_writing_at_once_lose_nothing(path):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, who], env={"PYTHONPATH": ":".join(sys.path)}
        )
        for who in "ab"
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    expected = {f"{who}{i}" for who in "ab" for i in range(15)}
    assert set(registry.load(path).pairings) == expected
    assert tomlkit.parse(path.read_text())


def test_loading_imports_no_writer():
    code = (
        "import sys, pathlib; from llm_specdec.pairings import registry;"
        "registry.load(pathlib.Path('no-such-file'));"
        "print([n for n in ('tomlkit', 'filelock', 'mlx', 'huggingface_hub') if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"
