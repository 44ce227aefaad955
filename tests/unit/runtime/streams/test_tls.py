"""TLS: contexts from files, names of peers, and limits of handshakes."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
import trustme

from skerry.errors import ConfigError
from skerry.limits import TLS_HANDSHAKE_COUNT_MAX
from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams.tls import (
    TLS_HANDSHAKE_PER_HOST_COUNT_MAX,
    TlsFiles,
    TlsHandshakes,
    client_context,
    common_name,
    load_certificates,
    server_context,
)

PATIENCE_S = 10.0
"""Far longer than anything here takes; a test that waits so long has failed."""


class Papers:
    """Files with certificates of one authority."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *, common_name: str | None = None) -> TlsFiles:
        cert = self._authority.issue_cert(name, common_name=common_name)
        path = self._folder / f"{common_name or name}.pem"
        path.touch(mode=0o600)
        cert.private_key_and_cert_chain_pem.write_to_path(path)
        return TlsFiles(cert=path)


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


class Greeter(asyncio.Protocol):
    """Sends the common name of the peer, then echoes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of uvloop have all of its methods, but not its class.
        transport = cast("asyncio.Transport", transport)
        self.transport = transport
        transport.write(f"hello {common_name(transport)};".encode())

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@asynccontextmanager
async def listening(
    context: ssl.SSLContext,
    handshakes: TlsHandshakes,
) -> AsyncIterator[int]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1000)
    listening.setblocking(False)
    handshakes.serve(listening, context, Greeter)
    try:
        yield listening.getsockname()[1]
    finally:
        await handshakes.close()


async def visit(port: int, context: ssl.SSLContext, *, words: bytes = b"") -> bytes:
    """The bytes a client receives that sends something and waits for the echo."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    try:
        writer.write(words)
        async with asyncio.timeout(PATIENCE_S):
            heard = await reader.readuntil(b";")
            return heard + await reader.readexactly(len(words))
    finally:
        writer.transport.abort()


async def is_turned_away(port: int) -> bool:
    """Whether a connection is ended before anything was said on it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
    except ConnectionResetError:
        return True
    finally:
        writer.transport.abort()


async def until(condition: Callable[[], bool]) -> None:
    """Run the loop until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def test_decrypted_stream_is_passed_to_its_protocol(papers: Papers) -> None:
    async def scene() -> None:
        context = server_context(papers.issue("localhost"))
        async with listening(context, TlsHandshakes()) as port:
            trusting = client_context(TlsFiles(ca=papers.ca))
            for _ in range(5):
                assert await visit(port, trusting, words=b"good morning") == b"hello ;good morning"

    asyncio.run(scene())


def test_client_of_another_authority_rejects_the_node(papers: Papers, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Papers(tmp_path / "other")

    async def scene() -> None:
        async with listening(server_context(papers.issue("localhost")), TlsHandshakes()) as port:
            with pytest.raises(ssl.SSLCertVerificationError):
                await visit(port, client_context(TlsFiles(ca=other.ca)))
            with pytest.raises(ssl.SSLCertVerificationError):
                await visit(port, client_context(TlsFiles()))

    asyncio.run(scene())


def test_client_with_a_certificate_has_its_common_name(papers: Papers) -> None:
    own = papers.issue("localhost")
    ann = papers.issue("ann@example.org", common_name="ann")

    async def scene() -> None:
        context = server_context(TlsFiles(cert=own.cert, ca=papers.ca))
        async with listening(context, TlsHandshakes()) as port:
            known = client_context(TlsFiles(cert=ann.cert, ca=papers.ca))
            assert await visit(port, known) == b"hello ann;"

    asyncio.run(scene())


def test_client_without_a_required_certificate_is_rejected(
    papers: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Papers(tmp_path / "other").issue("bob@example.org", common_name="bob")
    own = papers.issue("localhost")

    async def scene() -> None:
        context = server_context(TlsFiles(cert=own.cert, ca=papers.ca))
        async with listening(context, TlsHandshakes()) as port:
            for files in (TlsFiles(ca=papers.ca), TlsFiles(ca=papers.ca, cert=stranger.cert)):
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    await visit(port, client_context(files))

    asyncio.run(scene())
    reasons = [vars(record)["reason"] for record in caplog.records]
    assert reasons == ["peer did not return a certificate", "certificate verify failed"]


def test_reloaded_certificates_apply_to_later_connections(papers: Papers) -> None:
    files = papers.issue("localhost")
    assert files.cert is not None
    before = files.cert.read_bytes()
    papers.issue("localhost")

    async def scene() -> None:
        context = server_context(files)

        async def number() -> object:
            _, writer = await asyncio.open_connection(
                "127.0.0.1",
                port,
                ssl=client_context(TlsFiles(ca=papers.ca)),
                server_hostname="localhost",
            )
            writer.transport.abort()
            return writer.get_extra_info("peercert")["serialNumber"]

        async with listening(context, TlsHandshakes()) as port:
            first = await number()
            assert files.cert is not None
            files.cert.write_bytes(before)
            assert await number() == first
            load_certificates(context, files)
            assert await number() != first

    asyncio.run(scene())


def test_garbage_ends_only_its_own_handshake(
    papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with listening(server_context(papers.issue("localhost")), TlsHandshakes()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.transport.abort()
            assert await visit(port, client_context(TlsFiles(ca=papers.ca)))

    asyncio.run(scene())
    (record,) = caplog.records
    assert record.getMessage() == "TLS handshake failed"
    assert vars(record)["reason"] == "http request"


def test_silent_connection_is_closed_after_the_timeout(papers: Papers) -> None:
    async def scene() -> None:
        handshakes = TlsHandshakes(handshake_s_max=0.01)
        async with listening(server_context(papers.issue("localhost")), handshakes) as port:
            assert await is_turned_away(port)
            await until(lambda: handshakes.pending_count == 0)

    asyncio.run(scene())


async def reach(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A connection that starts a handshake and then sends nothing."""
    loop = asyncio.get_running_loop()
    silent = socket.socket()
    silent.setblocking(False)
    silent.bind((host, 0))
    await loop.sock_connect(silent, ("127.0.0.1", port))
    await loop.sock_sendall(silent, b"\x16\x03\x01")
    return silent


async def is_cut(silent: socket.socket) -> bool:
    try:
        return await asyncio.get_running_loop().sock_recv(silent, 1) == b""
    except ConnectionResetError:
        return True


LOOPS: list[LoopKind] = ["asyncio", "uvloop"]


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> LoopKind:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    kind: LoopKind = request.param
    return kind


def test_oldest_handshake_of_an_address_is_closed_at_the_limit(
    papers: Papers, loop: LoopKind
) -> None:
    async def scene() -> None:
        handshakes = TlsHandshakes(per_host_count_max=3)
        async with listening(server_context(papers.issue("localhost")), handshakes) as port:
            with ExitStack() as stack:
                silent = [stack.enter_context(await reach(port)) for _ in range(5)]
                async with asyncio.timeout(PATIENCE_S):
                    assert await is_cut(silent[0])
                    assert await is_cut(silent[1])
                    assert handshakes.pending_count == 3
                    trusting = client_context(TlsFiles(ca=papers.ca))
                    assert await visit(port, trusting) == b"hello ;"
                    assert await is_cut(silent[2])
                    await until(lambda: handshakes.pending_count == 2)

    run_loop(scene(), loop)


def test_address_with_most_handshakes_loses_one_at_the_total_limit(papers: Papers) -> None:
    async def scene() -> None:
        handshakes = TlsHandshakes(count_max=4, per_host_count_max=3)
        async with listening(server_context(papers.issue("localhost")), handshakes) as port:
            with ExitStack() as stack:
                hosts = ("127.0.1.1", "127.0.1.2", "127.0.1.2", "127.0.1.2", "127.0.1.3")
                first, second, *_ = [stack.enter_context(await reach(port, host)) for host in hosts]
                async with asyncio.timeout(PATIENCE_S):
                    assert await is_cut(second)
                assert handshakes.pending_count == 4
                with pytest.raises(BlockingIOError):
                    first.recv(1)

    asyncio.run(scene())


@pytest.mark.slow
def test_handshakes_are_limited_per_address_and_in_total() -> None:
    async def scene() -> None:
        handshakes = TlsHandshakes()
        never = asyncio.Event()

        def come(host: str) -> None:
            handshakes._add(wait(), host)

        async def wait() -> None:
            await never.wait()

        for _ in range(TLS_HANDSHAKE_PER_HOST_COUNT_MAX + 1):
            come("192.0.2.1")
        assert handshakes.pending_count == TLS_HANDSHAKE_PER_HOST_COUNT_MAX
        for number in range(TLS_HANDSHAKE_COUNT_MAX):
            come(f"198.51.100.{number % 200}")
        assert handshakes.pending_count == TLS_HANDSHAKE_COUNT_MAX
        # All have begun.
        await asyncio.sleep(0)
        await handshakes.close()
        assert handshakes.pending_count == 0

    asyncio.run(scene())


def test_closing_ends_all_handshakes(papers: Papers) -> None:
    async def scene() -> None:
        handshakes = TlsHandshakes()
        async with listening(server_context(papers.issue("localhost")), handshakes) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            # A whole visit, so that the silent one is in.
            assert await visit(port, client_context(TlsFiles(ca=papers.ca)))
            await asyncio.wait_for(handshakes.close(), PATIENCE_S)
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            writer.transport.abort()

    asyncio.run(scene())


def test_node_without_a_certificate_has_no_tls() -> None:
    with pytest.raises(
        ConfigError, match="TLS requires a certificate, and none is configured"
    ) as caught:
        server_context(TlsFiles())
    assert caught.value.hint is not None
    assert "--tls-cert" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), ("nonsense", "PEM lib|no certificate")]
)
def test_invalid_files_are_named(content: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    if content is not None:
        path.write_text(content)
    for files in (TlsFiles(cert=path), TlsFiles(ca=path)):
        with pytest.raises(ConfigError, match=words) as caught:
            client_context(files)
        assert str(path) in str(caught.value)


def test_key_with_a_password_is_rejected(papers: Papers, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    key = tmp_path / "locked.key"
    key.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
    )
    files = TlsFiles(cert=papers.issue("localhost").cert, key=key)
    with pytest.raises(ConfigError, match="the private key has a password"):
        server_context(files)


def test_files_of_an_endpoint_come_before_those_of_the_node() -> None:
    a, b, c = Path("a"), Path("b"), Path("c")
    node = TlsFiles(cert=a, key=b, ca=c)
    assert TlsFiles().or_else(node) == node
    assert TlsFiles(cert=c).or_else(node) == TlsFiles(cert=c, key=None, ca=c)
    assert TlsFiles(ca=a).or_else(node) == TlsFiles(cert=a, key=b, ca=a)


def test_private_key_that_every_user_can_read_gives_a_warning(
    papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    files = papers.issue("localhost")
    assert files.cert is not None
    files.cert.chmod(0o600)
    server_context(files)
    assert caplog.records == []
    files.cert.chmod(0o644)
    server_context(files)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["every user of this computer can read a private key"]
