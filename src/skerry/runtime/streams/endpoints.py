"""Endpoints: addresses at which a node listens and to which clients connect."""

from __future__ import annotations

import os
import re
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from skerry.errors import ConfigError

Kind = Literal["tcp", "tls", "unix", "websocket"]
"""Kind of transport; also the kind of the origin of a client."""

_PORTS: Final = {
    "tcp": 11235,
    "tcp-v2": 11235,
    "tcp-v1": 11234,
    "tls": 11236,
    "ws": 11233,
    "wss": 11233,
}
_PATHS: Final = ("uds", "uds-v2", "uds-v1")
_KINDS: Final[dict[str, Kind]] = {"tls": "tls", "ws": "websocket", "wss": "websocket"}
_SECURE: Final = ("tls", "wss")
_PID: Final = "{pid}"
_ANY: Final = "*"
_SWITCHES: Final = {"on": True, "off": False}
_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")
"""What other tools accept as an address: TCP is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    text: str
    """The endpoint as text, without password and options."""
    version: int
    """Version of the framing: 1 or 2. WebSockets do not use it."""
    kind: Kind = "tcp"
    is_secure: bool = False
    """Whether the connection uses TLS."""
    host: str = ""
    port: int = 0
    path: str = ""
    """Path of a Unix socket; empty for other kinds."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    extensions: bool = True
    """Whether the additions of skerry to DOTS are offered (option `extensions=off`). Always off for
    version 1."""
    cert: Path | None = None
    """Option of `tls` and `wss`: the own certificate."""
    key: Path | None = None
    """Option of `tls` and `wss`: its private key, if it is not in the same file."""
    ca: Path | None = None
    """Option of `tls` and `wss`: the authorities that sign the certificates of peers."""


def parse_endpoint(text: str) -> Endpoint:
    """Parse `tcp://host[:port]`, `tls://...`, `uds:/path` and so on, with options as a query.

    `host:port` stands for `tcp://host:port`, and an absolute path for the Unix socket there.
    In the path of a Unix socket, `{pid}` is the id of this process. A `*` in the last level matches
    the only socket of such a name at which a process listens.

    ConfigError if the text is not a valid endpoint.
    """
    if not isinstance(text, str):
        raise _fault(repr(text)[:80], f"it must be a str, got {type(text).__name__}")
    if _HOST_PORT.fullmatch(text):
        text = f"tcp://{text}"
    elif text.startswith("/"):
        text = f"uds:{text}"
    try:
        text.encode("utf-8", "surrogateescape")
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _fault(text, str(error)) from None
    if parts.scheme in _PATHS:
        return _unix(text, parts)
    if parts.scheme not in _PORTS:
        known = ", ".join([*_PORTS, *_PATHS])
        raise _fault(text, f"there is no scheme {parts.scheme or text!r}; there are {known}")
    if not parts.hostname:
        raise _fault(text, "it has no host; write it as in tcp://127.0.0.1")
    try:
        # The resolver does the same, but too late for a good error.
        parts.hostname.encode("idna")
    except UnicodeError:
        raise _fault(text, "the host is not a valid name of a computer") from None
    if parts.path not in ("", "/") or parts.fragment:
        raise _fault(text, "the port must be the last part")
    if port is None:
        port = _PORTS[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    options = _options(text, parts)
    return Endpoint(
        text=f"{parts.scheme}://{host}:{port}",
        version=_version(parts),
        kind=_KINDS.get(parts.scheme, "tcp"),
        is_secure=parts.scheme in _SECURE,
        host=parts.hostname,
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        extensions=_extensions(text, parts, options),
        cert=_file(options, "cert"),
        key=_file(options, "key"),
        ca=_file(options, "ca"),
    )


def _unix(text: str, parts: SplitResult) -> Endpoint:
    if parts.netloc or not parts.path.startswith("/") or parts.fragment:
        raise _fault(text, "a Unix socket needs an absolute path, as in uds:/run/skerry.sock")
    shown = text.partition("?")[0]
    path = unquote(parts.path.replace(_PID, str(os.getpid())))
    if "\0" in path:
        raise _fault(text, "a path cannot contain the character NUL")
    if _ANY in parts.path:
        path = _only_socket(text, Path(path))
    if _ANY in parts.path or _PID in parts.path:
        shown = f"{parts.scheme}:{quote(path)}"
    return Endpoint(
        text=shown,
        version=_version(parts),
        kind="unix",
        path=path,
        extensions=_extensions(text, parts, _options(text, parts)),
    )


def _only_socket(text: str, pattern: Path) -> str:
    """The socket that a pattern matches; ConfigError if there is none or more than one."""
    found = sorted(
        path for path in pattern.parent.glob(pattern.name) if _is_alive(path) and _is_trusted(path)
    )
    if not found:
        raise _fault(text, "no process listens at a socket of such a name")
    if len(found) > 1:
        raise _fault(text, f"there are several: {', '.join(map(str, found))}; name one of them")
    return str(found[0])


def _is_trusted(path: Path) -> bool:
    """Whether a matching socket belongs to the user or to root, or is in a folder that other users
    cannot write."""
    if not path.parent.stat().st_mode & stat.S_IWOTH:
        return True
    return path.lstat().st_uid in (os.geteuid(), 0)


def _is_alive(path: Path) -> bool:
    """Whether a process listens at the socket; a crashed program may have left the file."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        # The system answers at once. If it would block, a process listens.
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def _version(parts: SplitResult) -> int:
    return 1 if parts.scheme.endswith("-v1") else 2


def _options(text: str, parts: SplitResult) -> dict[str, str]:
    known = ["extensions"]
    if parts.scheme in _SECURE:
        known += ["cert", "key", "ca"]
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            raise _fault(text, f"there is no option {name!r} here; use {', '.join(known)}")
        if name in options:
            raise _fault(text, f"the option {name} is given twice")
        options[name] = value
    return options


def _extensions(text: str, parts: SplitResult, options: dict[str, str]) -> bool:
    value = options.get("extensions", "on")
    if value not in _SWITCHES:
        raise _fault(text, f"the option extensions must be on or off, not {value!r}")
    return _SWITCHES[value] and _version(parts) != 1


def _file(options: dict[str, str], name: str) -> Path | None:
    return Path(options[name]) if options.get(name) else None


def _fault(text: str, detail: str) -> ConfigError:
    scheme, slashes, rest = text.rpartition("//")
    # Errors are shown and logged, so they must not contain a password.
    key = f"{scheme}{slashes}{rest.rpartition('@')[2]}"
    return ConfigError(
        key=key,
        origin="endpoint",
        detail=detail,
        hint="endpoints look like tcp://127.0.0.1:11235, tls://host:11236, ws://127.0.0.1:11233,"
        " tcp-v1://127.0.0.1:11234 or uds:/path",
    )
