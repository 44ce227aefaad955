"""Clients of a portal on real sockets: the hold, restarts, and what does not belong there."""

from __future__ import annotations

import asyncio
import os
import socket
from random import Random
from typing import Any

import pytest
import zmq
import zmq.asyncio

import skerry.portal
from skerry.aio import portal
from skerry.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    RequestTimedOut,
)
from skerry.protocol.portal.messages import (
    MANAGER_MESSAGE_BYTES_MAX,
    ManagerQuestion,
    ManagerRequest,
    read_response,
    write_request,
)
from skerry.protocol.portal.session_messages import ManagerSilent
from skerry.runtime.portal.broker import PortalBroker
from skerry.runtime.portal.broker_config import PortalBrokerConfig
from tests.runtime.portal.portal_sockets import PATIENCE_S, Transport, client, place, served, until

TRANSPORTS = pytest.mark.parametrize("transport", ["ipc", "tcp"])


async def known(subscriber: Any, publisher: Any) -> None:
    """Wait until the publisher knows the subscriptions of the subscriber."""
    await subscriber.settle(PATIENCE_S)
    await publisher.settle(PATIENCE_S)


async def opened(fields: dict[str, Any], name: str, **more: Any) -> Any:
    made = await client(fields, name, **more)
    made.ready()
    await made.wait_open(PATIENCE_S)
    return made


@TRANSPORTS
def test_publications_wait_for_the_required_clients(transport: Transport) -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with (
            served(fields, required_clients=("pilot", "logger")),
            await client(fields, "pilot") as pilot,
        ):
            for number in range(3000):
                pilot.publish("status", str(number))
            pilot.ready()
            with pytest.raises(RequestTimedOut, match=r"release of the hold.*HELD"):
                await pilot.wait_open(0.3)
            async with await client(fields, "logger") as logger:
                received: list[str] = []
                logger.subscribe(lambda p: received.append(p.text()), "status")
                logger.ready()
                await until(lambda: len(received) == 3000, "all publications")
                assert received == [str(number) for number in range(3000)]

    with place(transport) as fields:
        asyncio.run(run(fields))


@TRANSPORTS
def test_clients_are_back_after_a_restart(transport: Transport) -> None:
    async def run(fields: dict[str, Any]) -> None:
        received: list[str] = []
        async with served(fields):
            pilot, logger = await opened(fields, "pilot"), await opened(fields, "logger")
            logger.subscribe(lambda p: received.append(p.text()), "status")
            await known(logger, pilot)
            pilot.publish("status", "before")
            await until(lambda: received == ["before"], "a publication")
        await until(lambda: not pilot.is_open and not logger.is_open, "the loss")
        pilot.publish("status", "meanwhile")
        async with served(fields):
            await until(lambda: received == ["before", "meanwhile"], "the kept publication")
            await pilot.close()
            await logger.close()

    with place(transport) as fields:
        asyncio.run(run(fields))


def test_a_second_broker_of_the_same_name_is_refused() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields), await client(fields, "pilot") as pilot:
            with pytest.raises(ConnectFailed, match="another broker already uses"):
                PortalBroker(PortalBrokerConfig(**fields), print)
            await pilot.wait_open(PATIENCE_S)

    with place("ipc") as fields:
        asyncio.run(run(fields))
    with place("tcp") as fields:

        async def taken() -> None:
            async with served(fields):
                with pytest.raises(ConnectFailed, match="in use"):
                    PortalBroker(PortalBrokerConfig(**fields), print)

        asyncio.run(taken())


def test_a_broker_without_a_lock_is_noticed_too() -> None:
    async def run(fields: dict[str, Any]) -> None:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(f"{fields['socket_name']}.manager")
            other.listen()
            with pytest.raises(ConnectFailed, match="another broker already uses"):
                PortalBroker(PortalBrokerConfig(**fields), print)
        # What a killed broker leaves does not matter.
        async with served(fields):
            pass

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_a_broker_finds_its_tcp_ports_again(tmp_path: Any) -> None:
    def ports(broker: PortalBroker) -> tuple[int, int]:
        request = ManagerRequest(question=ManagerQuestion.SOCKETS)
        found = read_response(broker.manager.answer(write_request(request)))
        assert found.publish_socket is not None
        assert found.subscribe_socket is not None
        return found.publish_socket.port, found.subscribe_socket.port

    async def run(fields: dict[str, Any]) -> None:
        config = PortalBrokerConfig(**fields)
        first = PortalBroker(config, print, state_folder=tmp_path)
        before = ports(first)
        first.close()
        with socket.socket() as other:
            again = PortalBroker(config, print, state_folder=tmp_path)
            assert ports(again) == before
            again.close()
            other.bind(("127.0.0.1", before[0]))
            other.listen()
            moved = PortalBroker(config, print, state_folder=tmp_path)
            assert ports(moved)[0] != before[0]
            moved.close()
            (tmp_path / f"portal-{fields['tcp_port']}.json").write_text("[1]")
            PortalBroker(config, print, state_folder=tmp_path).close()

    with place("tcp") as fields:
        asyncio.run(run(fields))


@pytest.mark.parametrize("filtered", [False, True])
@TRANSPORTS
def test_hostile_frames_harm_nobody(transport: Transport, filtered: bool) -> None:
    async def run(fields: dict[str, Any]) -> None:
        rng = Random(1)
        context = zmq.asyncio.Context()
        async with served(fields, filter=filtered) as service:
            logger = await opened(fields, "logger")
            received: list[bytes] = []
            logger.subscribe_matching(lambda p: received.append(p.payload), group="good")
            await logger.settle(PATIENCE_S)
            answer = read_response(
                service.broker.manager.answer(
                    write_request(ManagerRequest(question=ManagerQuestion.SOCKETS))
                )
            )
            assert answer.publish_socket is not None
            assert answer.subscribe_socket is not None
            sockets = []
            for kind, port_or_path in (
                (zmq.PUB, answer.publish_socket),
                (zmq.XSUB, answer.subscribe_socket),
            ):
                attacker = context.socket(kind)
                attacker.setsockopt(zmq.LINGER, 0)
                attacker.connect(
                    f"ipc://{port_or_path.path}"
                    if port_or_path.path
                    else f"tcp://127.0.0.1:{port_or_path.port}"
                )
                sockets.append(attacker)
            dealer = context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(service.broker.config.manager)
            async with await client(fields, "pilot") as pilot:
                for number in range(300):
                    garbage = rng.randbytes(rng.randrange(300))
                    for frame in (
                        garbage,
                        b"/good/JSON/x/abc/1/\0",
                        b"/g" + garbage,
                        b"\1" + garbage,
                    ):
                        for attacker in sockets:
                            await attacker.send(frame)
                    await sockets[0].send_multipart([b"/good/", garbage])
                    await dealer.send_multipart([b"", garbage])
                    await dealer.send_multipart([b"", garbage, garbage])
                    pilot.publish("good", str(number).encode(), scheme=99, type_name="t")
                    await asyncio.sleep(0)
                # The manager answers each request, so that no honest client is stuck behind it.
                await dealer.send_multipart([b"", bytes(MANAGER_MESSAGE_BYTES_MAX + 1)])
                await until(lambda: len(received) >= 300, "the good publications")
                assert received == [str(number).encode() for number in range(300)]
            if filtered:
                assert service.statistics().refused_messages > 0
            late = await opened(fields, "late")
            await late.close()
            await logger.close()
            assert not service.trouble
        context.destroy(linger=0)

    with place(transport) as fields:
        asyncio.run(run(fields))


def test_bytes_that_are_not_zeromq_are_dropped() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields) as service:
            for suffix in ("manager", "xpub", "xsub"):
                with socket.socket(socket.AF_UNIX) as other:
                    other.connect(f"{fields['socket_name']}.{suffix}")
                    other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
            await until(lambda: service.statistics().refused_connections >= 2, "the count")
            pilot = await opened(fields, "pilot")
            await pilot.close()

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_a_request_is_answered_after_clients_that_end_in_theirs() -> None:
    random = Random(18)

    async def run(fields: dict[str, Any]) -> None:
        async with served(fields):
            for _ in range(5):
                for _ in range(100):
                    with socket.socket(socket.AF_UNIX) as other:
                        other.connect(f"{fields['socket_name']}.manager")
                        other.sendall(random.randbytes(200))
                events: list[object] = []
                async with await client(fields, "pilot", on_event=events.append) as pilot:
                    pilot.ready()
                    await pilot.wait_open()
                assert not [event for event in events if isinstance(event, ManagerSilent)]

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_a_client_survives_a_peer_that_is_no_broker() -> None:
    async def run(fields: dict[str, Any]) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", fields["tcp_port"]))
            other.listen()
            events: list[object] = []
            async with await client(fields, "pilot", on_event=events.append) as pilot:
                loop = asyncio.get_running_loop()
                other.setblocking(False)
                for _ in range(2):
                    stream, _ = await loop.sock_accept(other)
                    await loop.sock_sendall(stream, b"220 mail.example ESMTP\r\n" * 10)
                    stream.close()
                assert not pilot.is_open
        assert any(isinstance(event, skerry.portal.ManagerSilent) for event in events)

    with place("tcp") as fields:
        asyncio.run(run(fields))


def test_all_levels_of_subscriptions() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields):
            pilot = await opened(fields, "pilot")
            found: list[str] = []

            def note(text: str) -> Any:
                return lambda _publication: found.append(text)

            process, thread = os.getpid(), pilot._link.session.thread
            pilot.subscribe(note("group"), "g")
            pilot.subscribe(note("scheme"), "g", 0)
            pilot.subscribe(note("type"), "g", 0, "CSTR")
            pilot.subscribe(note("process"), "g", 0, "CSTR", process)
            pilot.subscribe(note("thread"), "g", 0, "CSTR", process, thread)
            pilot.subscribe(note("other"), "g", 0, "CSTR", process + 1)
            pilot.subscribe(note("longer"), "gg")
            pilot.subscribe_matching(note("regex"), group="[a-h]", type_name="C.*", schemes=[0])
            pilot.subscribe_matching(note("part"), group="x?")
            removed = pilot.subscribe_matching(note("removed"))
            pilot.unsubscribe(removed)
            await pilot.settle(PATIENCE_S)
            pilot.publish("g", "text")
            await until(lambda: "regex" in found, "the publication")
            assert found == ["group", "scheme", "type", "process", "thread", "regex"]
            await pilot.close()

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_a_client_need_not_hear_itself() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields):
            pilot = await opened(fields, "pilot", echo=False)
            other = await opened(fields, "other")
            found: list[str] = []
            pilot.subscribe(lambda p: found.append(p.text()), "g")
            await known(pilot, other)
            pilot.publish("g", "own")
            await pilot.flush(PATIENCE_S)
            await pilot.settle(PATIENCE_S)
            other.publish("g", "of the other")
            await until(lambda: bool(found), "the publication")
            assert found == ["of the other"]
            await pilot.close()
            await other.close()
            with pytest.raises(Disconnected):
                pilot.publish("g", "too late")

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_blocking_connections() -> None:
    ready, done = asyncio.Event(), asyncio.Event()

    async def serve(fields: dict[str, Any]) -> None:
        async with served(fields):
            ready.set()
            await done.wait()

    async def both(fields: dict[str, Any]) -> None:
        serving = asyncio.create_task(serve(fields))
        await ready.wait()
        try:
            await asyncio.to_thread(blocking, fields)
        finally:
            done.set()
            await serving

    def blocking(fields: dict[str, Any]) -> None:
        found: list[str] = []
        with (
            skerry.portal.open("pilot", **fields) as pilot,
            skerry.portal.open("logger", **fields) as logger,
        ):
            subscription = logger.subscribe(lambda p: found.append(p.text()), "g")
            logger.subscribe_matching(lambda _p: found.append("matching"), group="g")
            logger.ready()
            logger.settle(PATIENCE_S)
            pilot.ready()
            pilot.wait_open(PATIENCE_S)
            pilot.settle(PATIENCE_S)
            assert pilot.is_open
            for number in range(20):
                pilot.publish("g", str(number))
            pilot.flush(PATIENCE_S)
            logger.settle(PATIENCE_S)
            while len(found) < 40:
                logger.settle(PATIENCE_S)
            assert found[::2] == [str(number) for number in range(20)]
            logger.unsubscribe(subscription)
            assert pilot.statistics().sent_count == 20
            with pytest.raises(LocalProtocolError, match="slash"):
                pilot.publish("a/b", "text")
            with pytest.raises(LocalProtocolError, match="cannot be published"):
                pilot.publish("g", 5)
            assert pilot.config.client_name == "pilot"
        with pytest.raises(Disconnected):
            pilot.publish("g", "too late")
        pilot.close()

    with place("ipc") as fields:
        asyncio.run(both(fields))


def test_a_callback_that_fails_is_logged_and_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields), await portal.open("pilot", **fields) as pilot:
            found: list[str] = []

            def fail(_publication: object) -> None:
                raise ValueError("a fault of the program")

            pilot.subscribe(fail, "g")
            pilot.subscribe(lambda p: found.append(p.text()), "g")
            pilot.ready()
            await pilot.settle(PATIENCE_S)
            pilot.publish("g", "text")
            await until(lambda: found == ["text"], "the publication")

    with place("ipc") as fields:
        asyncio.run(run(fields))
    assert "a fault of the program" in caplog.text
