"""Endpoints: where a node listens and where clients find it, as text and as facts."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from skerry.errors import ConfigError

__all__ = ["Endpoint", "parse_endpoint"]

_PORTS = {"tcp": 11235, "tcp-v2": 11235, "tcp-v1": 11234}
_PATHS = ("uds", "uds-v2", "uds-v1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A place to listen at or to connect to."""

    text: str
    """As it was written, without a password."""
    version: int
    """Of the framing: 1 or 2."""
    host: str = ""
    port: int = 0
    path: str = ""
    """Of a Unix socket; empty for TCP."""
    user: str | None = None
    password: str | None = None


def parse_endpoint(text: str) -> Endpoint:
    """`tcp://host[:port]`, `tcp-v1://...`, `uds:/path`; ConfigError says what is wrong."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _fault(text, str(error)) from None
    version = 1 if parts.scheme.endswith("-v1") else 2
    if parts.scheme in _PATHS:
        if parts.netloc or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise _fault(text, "a Unix socket needs a whole path, as in uds:/run/skerry.sock")
        path = unquote(parts.path)
        if "\0" in path:
            raise _fault(text, "no path has the character of number 0")
        return Endpoint(text=text, version=version, path=path)
    if parts.scheme not in _PORTS:
        known = ", ".join([*_PORTS, *_PATHS])
        raise _fault(text, f"there is no scheme {parts.scheme or text!r}; there are {known}")
    if not parts.hostname:
        raise _fault(text, "it names no host, as in tcp://127.0.0.1")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _fault(text, "something stands behind the port")
    if port is None:
        port = _PORTS[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Endpoint(
        text=f"{parts.scheme}://{host}:{port}",
        version=version,
        host=parts.hostname,
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def _fault(text: str, detail: str) -> ConfigError:
    scheme, slashes, rest = text.rpartition("//")
    # Errors are shown and kept, where a password has no place.
    key = f"{scheme}{slashes}{rest.rpartition('@')[2]}"
    return ConfigError(
        key=key,
        origin="endpoint",
        detail=detail,
        hint="endpoints look like tcp://127.0.0.1:11235, tcp-v1://127.0.0.1:11234 or uds:/path",
    )
