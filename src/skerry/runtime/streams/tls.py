"""TLS: contexts made from files, who is at the other end, and a lobby for those who shake hands."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.engine.admission.pending_connections import PendingConnections
from skerry.errors import ConfigError
from skerry.limits import TLS_HANDSHAKE_COUNT_MAX
from skerry.runtime.secret_files import warn_of_readers

__all__ = [
    "HANDSHAKE_S_MAX",
    "TLS_HANDSHAKE_PER_HOST_COUNT_MAX",
    "TlsFiles",
    "TlsHandshakes",
    "client_context",
    "common_name",
    "load_certificates",
    "server_context",
]

TLS_HANDSHAKE_PER_HOST_COUNT_MAX: Final = 1024
"""Of these, connections from one address, so that one computer cannot use all of them. Its clients
connect at the same time when a node restarts."""

HANDSHAKE_S_MAX: Final = 10.0
"""How long a client may take to agree on keys. A slow link needs one second."""
_SHUTDOWN_S_MAX: Final = 1.0
"""How long to wait for the other end's farewell when a stream is closed."""
_ACCEPT_PAUSE_S: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Section `node.tls`: files in PEM form."""

    cert: Path | None = None
    """Our certificate, with those in between it and its authority."""
    key: Path | None = None
    """The private key of the certificate, where it is not in the same file."""
    ca: Path | None = None
    """Authorities of clients. If given, a client without a certificate of theirs is refused."""

    def or_else(self, other: TlsFiles) -> TlsFiles:
        """These, with what is missing taken from `other`."""
        if self.cert is not None:
            # A key belongs to its certificate: ours is never paired with the other's.
            return TlsFiles(cert=self.cert, key=self.key, ca=self.ca or other.ca)
        return TlsFiles(cert=other.cert, key=other.key, ca=self.ca or other.ca)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """For a node's end of streams; ConfigError when a file is missing or of no use."""
    if files.cert is None:
        raise ConfigError(
            key="node.tls.cert",
            origin="default",
            detail="TLS needs a certificate, and none is given",
            hint="name one with --tls-cert and its key with --tls-key",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificates(context, files)
    private = files.key or files.cert
    warn_of_readers(private, private.stat().st_mode, "a private key")
    if files.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """For a client's end; without `ca` the authorities of the system decide whom to trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificates(context, files)
    if files.ca is None:
        context.load_default_certs()
    return context


def load_certificates(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Put what the files hold now into a context; it counts for handshakes from now on."""
    if files.ca is not None:
        try:
            context.load_verify_locations(files.ca)
        except (OSError, ssl.SSLError) as error:
            raise _fault("node.tls.ca", files.ca, error) from None
    if files.cert is not None:
        try:
            context.load_cert_chain(files.cert, files.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise _fault("node.tls.cert", files.cert, error) from None


def common_name(transport: asyncio.BaseTransport) -> str:
    """Of the certificate at the other end, which was checked; empty if there is none."""
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    for relative in certificate.get("subject", ()):
        for name, value in relative:
            if name == "commonName":
                return str(value)
    return ""


class TlsHandshakes:
    """Those who came in and still shake hands: few at a time, and not for long.

    They count here and not among the clients. So whoever opens connections and says nothing takes
    places of this lobby only, and of one address not all of them; and has to go when others come.
    """

    def __init__(
        self,
        *,
        handshake_s_max: float = HANDSHAKE_S_MAX,
        count_max: int = TLS_HANDSHAKE_COUNT_MAX,
        per_host_count_max: int = TLS_HANDSHAKE_PER_HOST_COUNT_MAX,
    ) -> None:
        self._handshake_s_max = handshake_s_max
        self._waiting: PendingConnections[asyncio.Task[None]] = PendingConnections(
            count_max=count_max, per_host_count_max=per_host_count_max
        )
        self._accepting: set[asyncio.Task[None]] = set()
        self._shaking: set[asyncio.Task[None]] = set()

    @property
    def waiting_count(self) -> int:
        """How many shake hands."""
        return len(self._waiting)

    def serve(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        door: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """Let in whoever comes to a socket; what `door` makes is given the stream inside TLS.

        The socket belongs to the lobby from now on.
        """
        _start(self._accept(listening, context, door), self._accepting)

    async def close(self) -> None:
        """Let nobody in any more, and turn out whoever still shakes hands."""
        # In this order, so that who was let in last has begun. To cancel it before would leave
        # its socket open.
        for tasks in (self._accepting, self._shaking):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        door: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    raw, peer = await loop.sock_accept(listening)
                except OSError as error:
                    # No descriptor for one more, or it is gone already. Trying again at once would
                    # be all that the node does as long as this lasts.
                    log.warning("nobody is let in by TLS", extra={"reason": _reason(error)})
                    await asyncio.sleep(_ACCEPT_PAUSE_S)
                    continue
                host = str(peer[0])
                self._enter(self._shake(raw, host, context, door), host)
                # The next may be there already. All others have their turn first, also those who
                # came before and need it to leave.
                await asyncio.sleep(0)

    def _enter(self, handshake: Coroutine[Any, Any, None], host: str) -> None:
        task = _start(handshake, self._shaking)
        oldest = self._waiting.enter(task, host)
        task.add_done_callback(lambda done: self._waiting.leave(done, host))
        if oldest is not None:
            log.warning(
                "too many unfinished TLS handshakes, the oldest is cut", extra={"host": host}
            )
            oldest.cancel()

    async def _shake(
        self,
        raw: socket.socket,
        host: str,
        context: ssl.SSLContext,
        door: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                door,
                raw,
                ssl=context,
                ssl_handshake_timeout=self._handshake_s_max,
                ssl_shutdown_timeout=_SHUTDOWN_S_MAX,
            )
        except (OSError, ssl.SSLError) as error:
            log.warning("TLS handshake failed", extra={"host": host, "reason": _reason(error)})


def _start(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """Begin, and be among the tasks until it is over."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def _no_password() -> str:
    # Without this, OpenSSL asks at the terminal, where a node would wait for ever.
    raise ValueError("the private key has a password; a node has nobody to ask for it")


def _fault(key: str, path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        key=key,
        origin=str(path),
        detail=_reason(error),
        hint="a certificate and a key are wanted in PEM form (-----BEGIN ...)",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and isinstance(error.reason, str):
        return error.reason.lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
