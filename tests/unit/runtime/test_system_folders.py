"""Folders: the order in which they are chosen, and those that are rejected."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from skerry.errors import ConfigError
from skerry.runtime import system_folders as places
from skerry.runtime.system_folders import (
    check_config,
    default_socket,
    find_socket,
    make_folder,
    runtime_folder,
    state_folder,
)


@pytest.fixture
def as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as a user without write permission in system folders."""
    monkeypatch.setattr(places, "_may_write", lambda _: False)


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_may_write", lambda _: True)


def test_runtime_folder_is_that_of_the_variable() -> None:
    environ = {"SKERRY_RUNTIME_DIR": "/here", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert runtime_folder(environ) == Path("/here")
    assert default_socket(environ) == Path("/here/node.sock")


def test_runtime_folder_is_in_that_of_the_session() -> None:
    assert runtime_folder({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/skerry")


def test_runtime_folder_is_that_of_the_system_if_writable(as_root: None) -> None:
    assert runtime_folder({}) == Path("/run/skerry")


def test_runtime_folder_of_other_users_is_in_the_temporary_folder(as_nobody: None) -> None:
    folder = runtime_folder({"SKERRY_RUNTIME_DIR": ""})
    assert folder == Path(tempfile.gettempdir(), f"skerry-{os.getuid()}")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"SKERRY_STATE_DIR": "/here", "XDG_STATE_HOME": "/state"}, "/here"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/people/ann"}, "/state/skerry"),
        ({"HOME": "/people/ann"}, "/people/ann/.local/state/skerry"),
    ],
)
def test_state_folder_is_found_in_order(
    as_nobody: None, environ: dict[str, str], folder: str
) -> None:
    assert state_folder(environ) == Path(folder)


def test_state_folder_is_that_of_the_system_if_writable(as_root: None) -> None:
    assert state_folder({"HOME": "/people/ann"}) == Path("/var/lib/skerry")


def test_folder_that_can_be_created_counts_as_writable(tmp_path: Path) -> None:
    assert places._may_write(tmp_path)
    assert places._may_write(tmp_path / "new")
    assert not places._may_write(tmp_path / "not" / "there")


def test_created_folder_is_private(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert make_folder(folder) == folder


def test_folder_that_every_user_can_write_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="every user of this computer can write there") as caught:
        make_folder(folder)
    assert caught.value.hint is not None
    assert "SKERRY_RUNTIME_DIR" in caught.value.hint
    folder.chmod(0o1777)
    assert make_folder(folder) == folder


def test_folder_of_another_user_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    if owner == 0:
        os.chown(tmp_path, owner + 2, -1)
    with pytest.raises(ConfigError, match="it belongs to another user"):
        make_folder(tmp_path)


def test_link_in_the_temporary_folder_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="it is a link"):
        make_folder(tmp_path / "link")


def test_file_instead_of_a_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ConfigError, match="File exists"):
        make_folder(tmp_path / "file")


@pytest.fixture
def found(tmp_path: Path, as_nobody: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A socket in the folder that a client looks at when nothing is named."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    path = default_socket({})
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


def be_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a path belong to another user."""
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 4711, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)


def test_socket_in_a_folder_of_the_user_is_found(found: Path) -> None:
    assert find_socket({}) == found
    found.unlink()
    assert find_socket({}) is None


def test_socket_in_a_folder_of_another_user_is_rejected(
    found: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = found.parent
    if folder.stat().st_uid:
        # The name of the folder has the number of the user.
        monkeypatch.setattr(places, "default_socket", lambda _: found)
    be_another_user(folder, monkeypatch)
    with pytest.raises(ConfigError, match="it belongs to another user"):
        find_socket({})
    assert find_socket({"SKERRY_RUNTIME_DIR": str(folder)}) == found, "it was chosen"


def test_socket_in_a_folder_that_every_user_can_write_is_rejected(found: Path) -> None:
    found.parent.chmod(0o777)
    for environ in ({}, {"SKERRY_RUNTIME_DIR": str(found.parent)}):
        with pytest.raises(ConfigError, match="every user of this computer can write there"):
            find_socket(environ)


def test_socket_behind_a_link_in_the_temporary_folder_is_rejected(found: Path) -> None:
    found.parent.rename(found.parent.with_name("elsewhere"))
    found.parent.symlink_to(found.parent.with_name("elsewhere"))
    with pytest.raises(ConfigError, match="it is a link"):
        find_socket({})


def test_configuration_of_another_user_is_rejected_unless_that_user_called_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "skerry.toml"
    path.touch(mode=0o600)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def facts(uid: int, mode: int = 0o100644) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 1, uid, 0, 0, 0, 0, 0))

    check_config(path, facts(1000), {})
    check_config(path, facts(0), {})
    for environ in ({}, {"SUDO_UID": "4711"}):
        with pytest.raises(
            ConfigError, match="belongs to another user \\(number 4711\\)"
        ) as caught:
            check_config(path, facts(4711), environ)
        assert caught.value.hint == f"if you trust it, name it with --config {path}"
    with pytest.raises(ConfigError, match="every user of this computer can change it"):
        check_config(path, facts(1000, 0o100666), {})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check_config(path, facts(4711), {"SUDO_UID": "4711"})
    with pytest.raises(ConfigError, match="belongs to another user"):
        check_config(path, facts(4712), {"SUDO_UID": "4711"})
