"""The contract of storages, and the errors they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import StorageError
from skerry.runtime.storage.contract import (
    FORMAT_VERSION,
    Storage,
    failure,
    text_of_subject,
    wrong_version,
)
from skerry.runtime.storage.sqlite import SqliteStorage


def test_failure_carries_its_hint() -> None:
    error = failure("what", "what to do")
    assert isinstance(error, StorageError)
    assert (str(error), error.hint) == ("what", "what to do")
    assert failure("what").hint is None


def test_wrong_version_names_both() -> None:
    error = wrong_version("node.db", 7)
    assert (
        str(error) == f"node.db has format 7, this version of skerry reads format {FORMAT_VERSION}"
    )
    assert error.hint is not None


@pytest.mark.parametrize("text", ["", "/a/ø", "/\x00", "/\udcff", "/\U0001f6a2"])
def test_every_subject_is_restored_from_its_bytes(text: str) -> None:
    assert text_of_subject(text.encode("utf-8", "surrogatepass")) == text


def test_file_is_a_storage(tmp_path: Path) -> None:
    storage: Storage = SqliteStorage(tmp_path / "node.db")
    storage.close()
