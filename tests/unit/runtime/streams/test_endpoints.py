"""Parsing of endpoints, and errors for invalid ones."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from skerry.errors import ConfigError
from skerry.runtime.streams.endpoints import Endpoint, parse_endpoint


@pytest.mark.parametrize(
    ("text", "version", "port"),
    [
        ("tcp://ship", 2, 11235),
        ("tcp-v2://ship", 2, 11235),
        ("tcp-v1://ship", 1, 11234),
        ("tcp://ship:7", 2, 7),
        ("tcp-v1://ship:0", 1, 0),
        ("tcp://ship:65535/", 2, 65535),
    ],
)
def test_tcp_endpoint_has_a_host_and_the_usual_port(text: str, version: int, port: int) -> None:
    endpoint = parse_endpoint(text)
    assert (endpoint.host, endpoint.port, endpoint.path) == ("ship", port, "")
    assert endpoint.version == version
    assert endpoint.text == f"{text.partition(':')[0]}://ship:{port}"


@pytest.mark.parametrize(("scheme", "version"), [("uds", 2), ("uds-v2", 2), ("uds-v1", 1)])
def test_unix_endpoint_is_a_path(scheme: str, version: int) -> None:
    text = f"{scheme}:/run/skerry.sock"
    assert parse_endpoint(text) == Endpoint(
        text=text,
        version=version,
        kind="unix",
        path="/run/skerry.sock",
        extensions=version != 1,
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("localhost:11235", "tcp://localhost:11235"),
        ("10.0.0.1:1", "tcp://10.0.0.1:1"),
        ("[::1]:4000", "tcp://[::1]:4000"),
        ("/run/skerry.sock", "uds:/run/skerry.sock"),
    ],
)
def test_an_address_without_a_scheme_is_tcp_and_a_path_a_socket(text: str, meant: str) -> None:
    assert parse_endpoint(text) == parse_endpoint(meant)


@pytest.mark.parametrize(
    ("text", "kind", "is_secure", "port"),
    [
        ("tcp://ship", "tcp", False, 11235),
        ("tls://ship", "tls", True, 11236),
        ("ws://ship", "websocket", False, 11233),
        ("wss://ship", "websocket", True, 11233),
        ("wss://ship:443/", "websocket", True, 443),
    ],
)
def test_scheme_selects_the_kind_of_transport(
    text: str, kind: str, is_secure: bool, port: int
) -> None:
    endpoint = parse_endpoint(text)
    assert (endpoint.kind, endpoint.is_secure, endpoint.port) == (kind, is_secure, port)
    assert (endpoint.version, endpoint.host) == (2, "ship")


@pytest.mark.parametrize(
    ("text", "extensions"),
    [
        ("tcp://ship", True),
        ("tcp://ship?extensions=on", True),
        ("tcp://ship:1?extensions=off", False),
        ("ws://ship/?extensions=off", False),
        ("uds:/run/node.sock?extensions=off", False),
        ("tcp-v1://ship", False),
        ("tcp-v1://ship?extensions=on", False),
    ],
)
def test_extensions_are_on_unless_switched_off_or_of_the_first_version(
    text: str, extensions: bool
) -> None:
    endpoint = parse_endpoint(text)
    assert endpoint.extensions is extensions
    assert "?" not in endpoint.text


def test_files_for_tls_are_options() -> None:
    endpoint = parse_endpoint("tls://ship?cert=/etc/my%20node.pem&key=node.key&ca=/etc/ca.pem")
    assert endpoint.cert == Path("/etc/my node.pem")
    assert endpoint.key == Path("node.key")
    assert endpoint.ca == Path("/etc/ca.pem")
    assert endpoint.text == "tls://ship:11236"


def test_path_of_three_slashes_is_the_same() -> None:
    assert parse_endpoint("uds:///run/skerry.sock").path == "/run/skerry.sock"


def test_path_may_have_escapes() -> None:
    assert parse_endpoint("uds:/run/my%20node%3f.sock").path == "/run/my node?.sock"


def test_ipv6_address_has_brackets_in_text_only() -> None:
    endpoint = parse_endpoint("tcp://[::1]:4000")
    assert (endpoint.host, endpoint.port, endpoint.text) == ("::1", 4000, "tcp://[::1]:4000")


def test_user_and_password_are_read_and_not_shown() -> None:
    endpoint = parse_endpoint("tcp://ann:p%40ss@ship:1")
    assert (endpoint.user, endpoint.password) == ("ann", "p@ss")
    assert endpoint.text == "tcp://ship:1"


def test_endpoint_without_a_user_has_none() -> None:
    endpoint = parse_endpoint("tcp://ship")
    assert (endpoint.user, endpoint.password) == (None, None)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "there is no scheme ''; there are tcp, tcp-v2, tcp-v1, tls, ws, wss, uds, uds-v2,"),
        ("ship", "there is no scheme 'ship'"),
        ("http://ship", "there is no scheme 'http'"),
        ("tcp-v3://ship", "there is no scheme 'tcp-v3'"),
        ("tcp:ship", "it has no host"),
        ("tcp://", "it has no host"),
        ("tcp://:4000", "it has no host"),
        ("tcp://a..b", "the host is not a valid name"),
        (f"tcp://{'a' * 64}", "the host is not a valid name"),
        ("tcp://ship:65536", "Port out of range"),
        ("tcp://ship:door", "Port could not be cast"),
        ("tcp://[::1", "Invalid IPv6 URL"),
        ("tcp://ship/deck", "the port must be the last part"),
        ("ws://ship/deck", "the port must be the last part"),
        ("tcp://ship?deck=2", "there is no option 'deck' here; use extensions"),
        ("tcp://ship?cert=a", "there is no option 'cert' here; use extensions"),
        ("tls://ship?crt=a", "there is no option 'crt' here; use extensions, cert, key, ca"),
        ("tcp://ship?extensions=no", "the option extensions must be on or off, not 'no'"),
        ("tcp://ship?extensions=on&extensions=off", "the option extensions is given twice"),
        ("tcp://ship#deck", "the port must be the last part"),
        ("uds:", "a Unix socket needs an absolute path"),
        ("uds:node.sock", "a Unix socket needs an absolute path"),
        ("uds://host/node.sock", "a Unix socket needs an absolute path"),
        ("uds:/run%00/node.sock", "a path cannot contain the character NUL"),
        ("uds:/run/node?.sock", "there is no option '.sock' here"),
        ("uds:/run/node#1", "a Unix socket needs an absolute path"),
    ],
)
def test_invalid_endpoint_is_rejected_with_a_reason(text: str, detail: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_endpoint(text)
    assert caught.value.detail.startswith(detail)
    assert str(caught.value) == f"{text} (endpoint): {caught.value.detail}"
    assert caught.value.hint is not None
    assert "tcp://127.0.0.1:11235" in caught.value.hint


@pytest.mark.parametrize("text", ["tcp://ann:secret@ship:door", "htp://ann:secret@ship"])
def test_password_stays_out_of_the_error(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_endpoint(text)
    assert "secret" not in str(caught.value)
    assert "ship" in caught.value.key


# -- sockets that have the number of a process in their names


def test_a_socket_may_have_the_number_of_the_process_in_its_name() -> None:
    endpoint = parse_endpoint("uds:/run/dotsd_{pid}?extensions=off")
    assert endpoint.path == f"/run/dotsd_{os.getpid()}"
    assert endpoint.text == f"uds:/run/dotsd_{os.getpid()}"


def test_only_socket_with_a_listener_is_found(tmp_path: Path) -> None:
    pattern = f"uds:{tmp_path}/dotsd_*"
    with pytest.raises(ConfigError, match="no process listens at a socket of such a name"):
        parse_endpoint(pattern)
    (tmp_path / "dotsd_1").write_text("no socket", encoding="utf-8")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{tmp_path}/dotsd_2")
    with listening(tmp_path / "dotsd_3"):
        endpoint = parse_endpoint(pattern)
        assert (endpoint.path, endpoint.text) == (f"{tmp_path}/dotsd_3", f"uds:{tmp_path}/dotsd_3")
        several = pytest.raises(ConfigError, match=r"dotsd_3, .*dotsd_4; name one of them")
        with listening(tmp_path / "dotsd_4"), several:
            parse_endpoint(pattern)


def test_sockets_of_other_users_in_a_shared_folder_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(tmp_path / "dotsd_1"):
        owner = tmp_path.stat().st_uid
        if owner == 0:
            os.chown(tmp_path / "dotsd_1", 4711, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        assert parse_endpoint(f"uds:{tmp_path}/dotsd_*").path == f"{tmp_path}/dotsd_1"
        tmp_path.chmod(0o1777)
        with pytest.raises(ConfigError, match="no process listens at a socket of such a name"):
            parse_endpoint(f"uds:{tmp_path}/dotsd_*")


def test_escaped_star_is_a_star() -> None:
    assert parse_endpoint("uds:/run/dotsd_%2A").path == "/run/dotsd_*"


def test_socket_with_a_full_backlog_is_alive(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as full, ExitStack() as visitors:
        full.bind(f"{tmp_path}/dotsd_1")
        full.listen(0)
        for _ in range(2):
            visitor = visitors.enter_context(socket.socket(socket.AF_UNIX))
            visitor.setblocking(False)
            with suppress(BlockingIOError):
                visitor.connect(f"{tmp_path}/dotsd_1")
        assert parse_endpoint(f"uds:{tmp_path}/*").path == f"{tmp_path}/dotsd_1"


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_password_is_not_shown() -> None:
    assert "sesame" not in repr(parse_endpoint("tcp://ann:sesame@host"))
