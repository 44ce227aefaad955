"""What keeps brokers apart: the lock of IPC sockets, and the ports of the last run."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import ConnectFailed
from skerry.runtime.portal.broker_lock import BrokerLock
from skerry.runtime.portal.data_ports import DataPorts


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    first = BrokerLock(str(tmp_path / "p"))
    with pytest.raises(ConnectFailed, match="another broker"):
        BrokerLock(str(tmp_path / "p"))
    first.release()
    first.release()
    BrokerLock(str(tmp_path / "p")).release()


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectFailed, match="cannot lock"):
        BrokerLock(str(tmp_path / "none" / "p"))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "p.lock").symlink_to(tmp_path / "other")
    with pytest.raises(ConnectFailed, match="cannot lock"):
        BrokerLock(str(tmp_path / "p"))
    assert not (tmp_path / "other").exists()


def test_ports_are_remembered(tmp_path: Path) -> None:
    ports = DataPorts(tmp_path / "state", 11144)
    assert ports.read("xpub") == 0
    ports.write({"xpub": 5, "xsub": 6})
    again = DataPorts(tmp_path / "state", 11144)
    assert (again.read("xpub"), again.read("xsub")) == (5, 6)
    assert DataPorts(tmp_path / "state", 11145).read("xpub") == 0
    for text in ("", "[]", "{", '{"xpub": "5"}', '{"xpub": 70000}', "x" * 5000):
        (tmp_path / "state" / "portal-11144.json").write_text(text)
        assert again.read("xpub") == 0
    nothing = DataPorts(None, 11144)
    nothing.write({"xpub": 5})
    assert nothing.read("xpub") == 0


def test_ports_that_cannot_be_remembered_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    DataPorts(tmp_path / "file" / "state", 11144).write({"xpub": 5})
    assert "not remembered" in caplog.text
