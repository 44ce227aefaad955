"""Secrets in files and in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import ConfigError
from skerry.runtime.secret_files import given_secret, read_secret


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    return path


@pytest.mark.parametrize("content", ["open sesame", "open sesame\n", "open sesame\r\n"])
def test_secret_is_the_only_line_of_its_file(
    file: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(content.encode())
    assert read_secret(file, origin="flag") == "open sesame"
    assert caplog.records == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"sesame\nsesame\n", "more than one line"),
        (b"x" * 4097, "more than 4096 bytes"),
        (b"sesame\xff", "not text in UTF-8"),
    ],
)
def test_file_without_a_secret_is_rejected_without_its_content(
    file: Path, content: bytes, words: str
) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_secret(file, origin="flag --secret-file")
    assert "sesame" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_secret(tmp_path / "nowhere", origin="flag")


def test_file_that_every_user_can_read_gives_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("sesame")
    file.chmod(0o644)
    assert read_secret(file, origin="flag") == "sesame"
    (record,) = caplog.records
    assert record.getMessage() == "every user of this computer can read a secret"


def test_environment_has_the_secret_or_names_its_file(file: Path) -> None:
    file.write_text("of the file\n")
    assert given_secret({}) is None
    assert given_secret({"SKERRY_SECRET_FILE": str(file)}) == "of the file"
    both = {"SKERRY_SECRET_FILE": str(file), "DOTS_AUTH_SECRET": "itself"}
    assert given_secret(both) == "itself"
    with pytest.raises(ConfigError, match="SKERRY_SECRET_FILE"):
        given_secret({"SKERRY_SECRET_FILE": f"{file}.not"})
