"""PostgreSQL without a server: errors if the server or the library is missing.

The rest is tested with a real server, in `tests/apps/storage`.
"""

from __future__ import annotations

import socket
import sys

import pytest

from skerry.errors import StorageError
from skerry.runtime.storage import postgres
from skerry.runtime.storage.open import open_storage


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@host:99/db", "postgresql://me@host:99/db"),
        ("postgresql://host/db?user=me&password=secret", "postgresql://me@host/db"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql://", "postgresql:///"),
    ],
)
def test_url_is_shown_without_the_password(url: str, place: str) -> None:
    pytest.importorskip("psycopg")
    assert postgres.url_without_password(url) == place


def test_invalid_url_is_reported_without_repeating_it() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match="the URL of the storage is invalid") as notified:
        open_storage("postgresql://me:secret@host:99/db?nonsense=1")
    assert "secret" not in str(notified.value)
    assert notified.value.hint is not None


def test_unreachable_server_is_an_error() -> None:
    pytest.importorskip("psycopg")
    with socket.socket() as taken:
        # Bound and not listening: no other program gets the port, and connections are refused.
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(StorageError, match=f"postgresql://me@127.0.0.1:{port}/db") as notified:
            open_storage(f"postgresql://me:secret@127.0.0.1:{port}/db")
    assert "refused" in str(notified.value)
    assert "secret" not in str(notified.value)
    assert notified.value.hint is not None


def test_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "skerry.runtime.storage.postgres")
    with pytest.raises(StorageError, match="PostgreSQL needs the library psycopg") as notified:
        open_storage("postgresql://host/db")
    assert "skerry[postgres]" in (notified.value.hint or "")
