"""Files that are complete or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import RecordingError
from skerry.runtime.recordings.files.new_files import new_file


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with new_file(target) as file:
        file.write(b"one")
        assert not target.exists()
    assert target.read_bytes() == b"one"
    target.chmod(0o640)
    with new_file(target) as file:
        file.write(b"two")
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o640


def test_nothing_is_left_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "a"):
        raise ZeroDivisionError
    with pytest.raises(RecordingError, match="it is a folder"), new_file(tmp_path):
        pass
    with pytest.raises(RecordingError, match="cannot write"), new_file(tmp_path / "b" / "c"):
        pass
    assert list(tmp_path.iterdir()) == []
