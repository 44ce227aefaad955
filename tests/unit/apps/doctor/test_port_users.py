"""Which program has a port."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from skerry.apps.doctor.checks import port_user


def test_program_that_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = port_user(taken.getsockname()[1])
    assert found is not None
    assert found.startswith(f"process {os.getpid()} (")


def test_program_that_listens_by_the_sixth_version_is_found() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        assert port_user(taken.getsockname()[1]) is not None


def test_port_that_is_free_has_no_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert port_user(port) is None


def test_process_without_permission_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue tr tm->when retrnsmt uid timeout inode\n"
    line = "   0: 0100007F:2BE3 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n"
    (tmp_path / "net" / "tcp").write_text(head + line)
    (tmp_path / "12").mkdir()
    assert port_user(11235, tmp_path) is None
    (tmp_path / "13" / "fd").mkdir(parents=True)
    (tmp_path / "13" / "fd" / "3").symlink_to("socket:[77]")
    (tmp_path / "13" / "fd" / "4").touch()
    assert port_user(11235, tmp_path) == "process 13 (ended)"
    (tmp_path / "13" / "cmdline").write_bytes(b"skerry\0node\0run\0")
    assert port_user(11235, tmp_path) == "process 13 (skerry node run)"
