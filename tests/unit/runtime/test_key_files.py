"""Reading key files: valid and invalid ones, and warnings about permissions."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from skerry.errors import ConfigError
from skerry.limits import CONFIG_BYTES_MAX
from skerry.runtime.key_files import open_seal, read_keys

HEADER = bytes.fromhex("010001050a0000010000ef33de07d77a000103ae")


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "keys.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path, f'[[key]]\nid = 5\nsecret = "{"ab" * 32}"\n')


def test_two_programs_with_one_key_file_understand_each_other(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sealed = open_seal(file).seal(HEADER + b"content")
    assert open_seal(str(file)).open(sealed) == HEADER + b"content"
    assert open_seal(file).statistics().key_id == 5
    assert not caplog.records


def test_file_that_every_user_can_read_gives_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert len(read_keys(file)) == 1
    assert "every user of this computer" in caplog.text


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml\): No such file"):
        read_keys(tmp_path / "none.toml")


def test_invalid_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"keys\.toml\): there is no key"):
        read_keys(written(tmp_path, ""))
    (tmp_path / "keys.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="can't decode"):
        read_keys(tmp_path / "keys.toml")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    text = f'[[key]]\nid = 5\nsecret = "{"ab" * 32}"\n#'
    fitting = written(tmp_path, text.ljust(CONFIG_BYTES_MAX, "x"))
    assert len(read_keys(fitting)) == 1
    with pytest.raises(ConfigError, match="the limit is 1048576"):
        read_keys(written(tmp_path, text.ljust(CONFIG_BYTES_MAX + 1, "x")))
