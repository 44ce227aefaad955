"""Opening storages by URL."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skerry.errors import StorageError
from skerry.runtime.storage.contract import SyncPolicy
from skerry.runtime.storage.open import default_url, open_storage
from skerry.runtime.storage.sqlite import SqliteStorage


@pytest.mark.parametrize("form", ["sqlite:{}/a b.db", "sqlite://{}/a b.db", "sqlite:{}/a%20b.db"])
def test_file_is_named_by_its_path(form: str, tmp_path: Path) -> None:
    storage = open_storage(form.format(tmp_path))
    storage.close()
    assert storage.location == str(tmp_path / "a b.db")
    assert (tmp_path / "a b.db").exists()


def test_relative_path_starts_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("sqlite:data/node.db")
    monkeypatch.chdir("/")
    storage.close()
    assert storage.location == str(tmp_path / "data" / "node.db")


def test_policy_reaches_the_storage(tmp_path: Path) -> None:
    for sync, number in ((SyncPolicy.COMMIT, 2), (SyncPolicy.NONE, 1)):
        storage = open_storage(f"sqlite:{tmp_path}/{sync.value}.db", sync=sync)
        assert isinstance(storage, SqliteStorage)
        found = storage._connection.execute("PRAGMA synchronous").fetchone()
        storage.close()
        assert found == (number,)


@pytest.mark.parametrize("url", ["", "node.db", "mysql://host/db", "postgresql:db", "sqlite"])
def test_unknown_storage_is_an_error_with_examples(url: str) -> None:
    with pytest.raises(StorageError, match="there is no storage") as notified:
        open_storage(url)
    assert "sqlite:" in (notified.value.hint or "")


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:///"])
def test_file_must_have_a_name(url: str) -> None:
    with pytest.raises(StorageError, match="has no file"):
        open_storage(url)


def test_password_of_an_unknown_storage_is_not_repeated() -> None:
    with pytest.raises(StorageError) as notified:
        open_storage("mysql://me:secret@host/db")
    assert "secret" not in str(notified.value)


def test_default_is_a_file_of_the_node_in_the_state_folder(tmp_path: Path) -> None:
    environ = {"SKERRY_STATE_DIR": str(tmp_path / "100% state")}
    for name in ("bridge-1", "..", "a/b", "50%"):
        storage = open_storage(default_url(environ, name=name))
        storage.close()
        assert Path(storage.location).parent == tmp_path / "100% state"
    assert default_url(environ, name="a") != default_url(environ, name="b")


def test_sqlite_needs_no_library_of_a_server() -> None:
    assert "skerry.runtime.storage.open" in sys.modules
    assert not hasattr(sys.modules["skerry.runtime.storage.open"], "PostgresStorage")
