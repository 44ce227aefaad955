"""Sockets: bound to all addresses of a host with one port, or to a file with permissions."""

from __future__ import annotations

import asyncio
import grp
import os
import resource
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from skerry.runtime.streams import sockets
from skerry.runtime.streams.sockets import bind_tcp, bind_unix, raise_descriptor_limit, tune

BOTH = [
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
]


def bound(host: str, port: int, found: list[Any] | None = None) -> list[tuple[str, int]]:
    """The addresses to which the sockets of a host are bound; `found` are the resolved ones."""

    async def scene() -> list[tuple[str, int]]:
        if found is not None:
            loop: Any = asyncio.get_running_loop()

            async def resolve(*_arguments: object, **_options: object) -> list[Any]:
                return found

            loop.getaddrinfo = resolve
        made = await bind_tcp(host, port)
        names = [one.getsockname()[:2] for one in made]
        for one in made:
            one.close()
        return names

    return asyncio.run(scene())


def test_all_addresses_of_a_host_get_the_same_port_once_each() -> None:
    (first, port), (second, same_port) = bound("ship", 0, BOTH)
    assert (first, second) == ("127.0.0.1", "127.0.0.2")
    assert port == same_port != 0


def test_port_in_use_at_one_address_is_not_used_at_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        real = sockets._bind_all
        asked: list[int] = []

        def unlucky_at_first(addresses: Any, wanted: int) -> list[socket.socket]:
            asked.append(wanted)
            return real(addresses, port if len(asked) == 1 else wanted)

        monkeypatch.setattr(sockets, "_bind_all", unlucky_at_first)
        (_, first), (_, second) = bound("ship", 0, BOTH)
        assert asked == [0, 0]
        assert first == second != port


def test_attempts_for_a_free_port_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        real = sockets._bind_all
        monkeypatch.setattr(sockets, "_bind_all", lambda addresses, _: real(addresses, port))
        with pytest.raises(OSError, match="in use"):
            bound("ship", 0, BOTH)


def test_given_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        bound("127.0.0.1", taken.getsockname()[1])


def test_unix_socket_is_private(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    made, file = bind_unix(path, mode=0o600)
    with made:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.remove()
    assert not path.exists()


def test_unix_socket_is_given_to_a_group(tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid())
    made, file = bind_unix(tmp_path / "node.sock", mode=0o660, group=group.gr_name)
    with made:
        found = (tmp_path / "node.sock").stat()
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, group.gr_gid)
    file.remove()


def test_missing_group_leaves_no_socket(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no group nobody-knows on this computer"):
        bind_unix(tmp_path / "node.sock", mode=0o660, group="nobody-knows")
    assert list(tmp_path.iterdir()) == []


def test_socket_of_another_node_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    first, file = bind_unix(path, mode=0o600)
    path.rename(tmp_path / "old.sock")  # keeps its number from being used again
    second, other = bind_unix(path, mode=0o600)
    with first, second:
        file.remove()
        assert path.is_socket()
        other.remove()
        assert not path.exists()
        other.remove()


def test_connections_have_no_delay_and_keep_alive() -> None:
    with socket.socket() as raw:
        tune(raw)
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
        for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            assert raw.getsockopt(socket.IPPROTO_TCP, getattr(socket, option)) == value


def send_room(raw: socket.socket) -> int:
    return raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_send_buffer_of_unix_sockets_is_as_large_as_allowed() -> None:
    one, other = socket.socketpair()
    with one, other:
        before = send_room(one)
        tune(one)
        assert send_room(one) > before or before >= 1024 * 1024
        other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
        assert send_room(one) == send_room(other)


@pytest.mark.parametrize(
    ("content", "is_set"),
    [("4096 16384 4194304\n", False), ("4096 16384 65536\n", True), ("", True), (None, True)],
)
def test_send_buffer_of_tcp_is_set_only_if_it_does_not_grow(
    content: str | None, is_set: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tcp_wmem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(sockets, "_TCP_SEND_BYTES", file)
    with socket.socket() as raw:
        before = send_room(raw)
        tune(raw)
        assert (send_room(raw) > before) == is_set


def test_descriptor_limit_is_raised_to_the_maximum() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
    try:
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert raise_descriptor_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
