"""TLS: contexts from certificate files, names of peers, and connections during the handshake."""

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
from skerry.runtime.streams.accepting import Acceptor

TLS_HANDSHAKE_PER_HOST_COUNT_MAX: Final = 1024
"""Of these, connections from one address, so that one computer cannot use all of them. Its clients
connect at the same time when a node restarts."""

HANDSHAKE_S_MAX: Final = 10.0
"""Time for a client to complete the TLS handshake. A slow link needs one second."""
_SHUTDOWN_S_MAX: Final = 1.0
"""Time to wait for the peer's TLS shutdown when a stream is closed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Section `node.tls`: files in PEM form."""

    cert: Path | None = None
    """The certificate of the node, with the intermediate certificates up to its authority."""
    key: Path | None = None
    """The private key of the certificate, if it is not in the same file."""
    ca: Path | None = None
    """Authorities of clients. If given, clients without a certificate of theirs are rejected."""

    def or_else(self, other: TlsFiles) -> TlsFiles:
        """These files, with missing ones replaced by those of `other`."""
        if self.cert is not None:
            # A key belongs to its certificate: they are never taken from different sources.
            return TlsFiles(cert=self.cert, key=self.key, ca=self.ca or other.ca)
        return TlsFiles(cert=other.cert, key=other.key, ca=self.ca or other.ca)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The context of a node; ConfigError if a file is missing or invalid."""
    if files.cert is None:
        raise ConfigError(
            key="node.tls.cert",
            origin="default",
            detail="TLS requires a certificate, and none is configured",
            hint="set one with --tls-cert and its key with --tls-key",
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
    """The context of a client; without `ca` it trusts the authorities of the system."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificates(context, files)
    if files.ca is None:
        context.load_default_certs()
    return context


def load_certificates(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Load the files into a context, for later handshakes; ConfigError if one is invalid."""
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
    """The common name in the verified certificate of the peer; empty without a certificate."""
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    for relative in certificate.get("subject", ()):
        for name, value in relative:
            if name == "commonName":
                return str(value)
    return ""


class TlsHandshakes:
    """Connections in the TLS handshake, limited in number and time.

    They do not count as clients. So a program that opens connections and sends nothing can only use
    up the limits of this class, and not all of them from one address. Beyond the limits, the oldest
    connection is closed.
    """

    def __init__(
        self,
        *,
        handshake_s_max: float = HANDSHAKE_S_MAX,
        count_max: int = TLS_HANDSHAKE_COUNT_MAX,
        per_host_count_max: int = TLS_HANDSHAKE_PER_HOST_COUNT_MAX,
    ) -> None:
        self._handshake_s_max = handshake_s_max
        self._pending: PendingConnections[asyncio.Task[None]] = PendingConnections(
            count_max=count_max, per_host_count_max=per_host_count_max
        )
        self._acceptors: list[Acceptor] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def serve(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """Accept connections at a socket, and attach a protocol to each after its handshake.

        The socket belongs to this object from now on.
        """

        def accepted(raw: socket.socket, host: str) -> None:
            self._add(self._handshake(raw, host, context, factory), host)

        self._acceptors.append(Acceptor(listening, accepted))

    async def close(self) -> None:
        """Stop accepting, and close the connections in the handshake."""
        for acceptor in self._acceptors:
            acceptor.close()
        # Now the last handshake has started. Cancelling it before would leave its socket open.
        await asyncio.sleep(0)
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _add(self, handshake: Coroutine[Any, Any, None], host: str) -> None:
        task = asyncio.get_running_loop().create_task(handshake)
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        oldest = self._pending.add(task, host)
        task.add_done_callback(lambda done: self._pending.remove(done, host))
        if oldest is not None:
            log.warning(
                "too many unfinished TLS handshakes, the oldest is closed", extra={"host": host}
            )
            oldest.cancel()

    async def _handshake(
        self,
        raw: socket.socket,
        host: str,
        context: ssl.SSLContext,
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                factory,
                raw,
                ssl=context,
                ssl_handshake_timeout=self._handshake_s_max,
                ssl_shutdown_timeout=_SHUTDOWN_S_MAX,
            )
        except (OSError, ssl.SSLError) as error:
            log.warning("TLS handshake failed", extra={"host": host, "reason": _reason(error)})


def _no_password() -> str:
    # Without this, OpenSSL asks at the terminal, where a node would wait forever.
    raise ValueError("the private key has a password; remove it, a node cannot ask for it")


def _fault(key: str, path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        key=key,
        origin=str(path),
        detail=_reason(error),
        hint="certificate and key must be in PEM format (-----BEGIN ...)",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and isinstance(error.reason, str):
        return error.reason.lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
