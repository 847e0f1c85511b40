"""Sockets lie where nobody else may look, whatever the length of the path."""

import os

import pytest

from llm_specdec.backends.resident import places
from llm_specdec.errors import ResourceError


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user folder whose path is short."""
    folder = tmp_path / "u"
    monkeypatch.setattr(places, "LONGEST", 4096)
    monkeypatch.setenv("LLM_USER_PATH", str(folder))
    return folder


def test_the_folder_is_the_users_alone_whatever_the_umask(user):
    before = os.umask(0)
    try:
        folder = places.folder()
    finally:
        os.umask(before)
    assert folder == user / "specdec" / "workers"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_path_too_long_for_a_socket_gives_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")
    found = []
    for name in ("one", "two"):
        monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / (name * 40)))
        found.append(places.place_of("target").socket)
    assert all(len(os.fsencode(path)) <= places.LONGEST for path in found)
    assert found[0].parent != found[1].parent
    for path in found:
        assert path.parent.stat().st_mode & 0o777 == 0o700
        path.parent.rmdir()


def test_a_folder_that_others_may_enter_is_refused(user):
    folder = places.folder()
    folder.chmod(0o755)
    with pytest.raises(ResourceError, match="must be yours alone"):
        places.folder()


def test_a_link_in_its_place_is_refused(user, tmp_path):
    (user / "specdec").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    (user / "specdec" / "workers").symlink_to(tmp_path / "theirs")
    with pytest.raises(ResourceError, match="must be yours alone"):
        places.folder()


def test_targets_have_places_of_their_own(user):
    one, other = places.place_of("/a"), places.place_of("/b")
    assert one != other and one == places.place_of("/a")
    assert {path.suffix for path in (one.socket, one.start, one.log)} == {
        ".sock", ".start", ".log",
    }  # fmt: skip
