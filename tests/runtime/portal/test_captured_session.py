"""The captured session of a Goby client, replayed against a portal on real sockets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from skerry.protocol.portal.messages import (
    RESPONSE_FILTER,
    DataSocket,
    PortalTransport,
    read_response,
    write_response,
)
from tests.runtime.portal.portal_sockets import PATIENCE_S, Transport, client, place, served, until

SESSION = Path(__file__).resolve().parents[2] / "golden" / "goby" / "client-session-ipc.json"
EVENTS = [
    (event["kind"], bytes.fromhex(event["hex"]))
    for event in json.loads(SESSION.read_text())["events"]
]
REQUEST = next(data for kind, data in EVENTS if kind == "REQ")
CAPTURED_REPLY = next(data for kind, data in EVENTS if kind == "REP")
HOLD_REQUEST = next(data for kind, data in EVENTS if kind == "PUB")
OF_TOOL = b"\x08\x02\x12\x10goby_zeromq_tool\x18\xeak0"
"""The answer to a request about the hold of this session, without the state."""


def endpoint(fields: dict[str, Any], found: DataSocket) -> str:
    if found.transport == PortalTransport.IPC:
        assert found.path.startswith(fields["socket_name"])
        return f"ipc://{found.path}"
    return f"tcp://127.0.0.1:{found.port}"


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_the_captured_client_is_held_and_released(transport: Transport) -> None:
    with place(transport) as fields:
        asyncio.run(replay(fields))


async def replay(fields: dict[str, Any]) -> None:
    context = zmq.asyncio.Context()
    async with served(fields, required_clients=("other",)), asyncio.timeout(PATIENCE_S):
        manager = (
            f"ipc://{fields['socket_name']}.manager"
            if fields["transport"] == "ipc"
            else f"tcp://127.0.0.1:{fields['tcp_port']}"
        )
        request = context.socket(zmq.REQ)
        request.connect(manager)
        await request.send(REQUEST)
        reply = await request.recv()
        found = read_response(reply)
        assert found.publish_socket is not None
        assert found.subscribe_socket is not None
        check_reply(reply)
        subscriber, publisher = context.socket(zmq.SUB), context.socket(zmq.PUB)
        subscriber.connect(endpoint(fields, found.subscribe_socket))
        publisher.connect(endpoint(fields, found.publish_socket))
        for kind, data in EVENTS:
            if kind == "SUBSCRIPTION" and data[0] == 1:
                subscriber.subscribe(data[1:])
        held = await hold_answer(publisher, subscriber)
        assert held == OF_TOOL + b"\x01"
        other = await client(fields, "other")
        received: list[bytes] = []
        other.subscribe(lambda publication: received.append(publication.payload), "grp_json")
        other.ready()
        answer = held
        while answer == held:
            answer = await hold_answer(publisher, subscriber)
        assert answer == OF_TOOL + b"\x00"
        for kind, data in EVENTS:
            if kind == "SUBSCRIPTION" and data[0] == 0:
                subscriber.unsubscribe(data[1:])
        # Hold requests that had piled up follow the release.
        for kind, data in EVENTS:
            if kind == "PUB":
                await publisher.send(data)
        await publisher.send(b"/grp_json/JSON/nlohmann::json/13802/f1256dbbe309074b/\0data")
        await until(lambda: received == [b"data"], "the publication of the captured client")
        await other.close()
    context.destroy(linger=0)


async def hold_answer(publisher: Any, subscriber: Any) -> bytes:
    """Send the captured request each 100 ms until an answer arrives; returns its payload."""
    while True:
        await publisher.send(HOLD_REQUEST)
        if await subscriber.poll(100):
            frame: bytes = await subscriber.recv()
            assert frame.startswith(RESPONSE_FILTER)
            payload = frame[frame.index(b"\0") + 1 :]
            # Answers go to all clients that listen.
            if payload.startswith(OF_TOOL):
                return payload


def check_reply(reply: bytes) -> None:
    """The reply is the captured one, but for the addresses of this portal."""
    found, captured = read_response(reply), read_response(CAPTURED_REPLY)
    expected = replace(
        captured, publish_socket=found.publish_socket, subscribe_socket=found.subscribe_socket
    )
    assert found == expected
    assert write_response(expected) == reply
