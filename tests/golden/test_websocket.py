"""The captured WebSocket session: its texts are read and written alike, and our node says the same.

Times are left out of the comparison. The host wrote an infinity as `inf`, which is not JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.engine.node import NodeCore
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.connection import ConnectionBroken
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, Disconnect
from skerry.schema.model import NamedType

VECTORS = Path(__file__).parent / "dots"
SESSION = json.loads((VECTORS / "websocket-json.json").read_text(encoding="utf-8"))
MESSAGES = [message for message in SESSION["messages"] if "text" in message]
SAID = [message["text"] for message in MESSAGES if message["dir"] == "server->client"]
GOLDEN = skerry.define_types((VECTORS / "golden.dots").read_text(encoding="utf-8"))
TYPES: dict[str, NamedType] = {"GoldenAll": GOLDEN.GoldenAll.descriptor}
CLIENT = Address("captured", 1, is_stream=True)
GUEST = Address("guest", 2, is_stream=True)


@pytest.mark.parametrize("text", SAID)
def test_texts_of_the_host_are_read_and_written_byte_by_byte(text: str) -> None:
    wire = JsonWire(TYPES)
    ((header, payload),) = wire.feed(text.encode())
    assert cut_messages(wire.frame(header, payload)) == [text.encode()]


def test_texts_of_the_client_mean_what_they_say() -> None:
    wire = JsonWire(TYPES)
    texts = [message["text"] for message in MESSAGES if message["dir"] == "client->server"]
    assert len(texts) == 5
    for text in texts:
        ((header, payload),) = wire.feed(text.encode())
        (again,) = cut_messages(wire.frame(header, payload))
        assert without_nulls(json.loads(again)) == without_nulls(json.loads(text))


def without_nulls(plain: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in part.items() if value is not None} for part in plain]


class Play:
    """A node with the object that was there when the captured client came, and that client."""

    def __init__(self, wire: Callable[[NodeCore], JsonWire]) -> None:
        self.node = NodeCore(
            name="dotsd", wall_offset_ns=1_700_000_000_000_000_000, extensions=False
        )
        self.heard: list[str] = []
        self.is_guest_there = True
        publish_before(self.node)
        self.node.open(CLIENT, wire(self.node), 10)
        self._listen()
        for message in MESSAGES:
            if message["dir"] == "client->server":
                self.node.receive(message["text"].encode(), CLIENT, 20)
                self._listen()

    def _listen(self) -> None:
        for transmit in self.node.take_transmits():
            if transmit.destination == CLIENT:
                self.heard += [text.decode() for text in cut_messages(transmit.data)]
            elif isinstance(transmit, Disconnect):
                self.is_guest_there = False


def test_node_says_what_the_host_said() -> None:
    play = Play(lambda node: JsonNodeWire(node.registry))
    assert list(map(without_times, play.heard)) == list(map(without_times, SAID))


def test_a_plain_guest_publishes_an_infinity_as_the_host_accepts_it() -> None:
    play = Play(lambda node: JsonNodeWire(node.registry))
    text = (
        '[ { "typeName": "GoldenAll", "sentTime": 5.0, "attributes": 4102, "removeObj": false },'
        ' { "id": 9, "name": "third", "f64": -inf } ]'
    )
    play.node.receive(text.encode(), CLIENT, 30)
    (heard,) = [
        cut_messages(transmit.data)[0].decode()
        for transmit in play.node.take_transmits()
        if transmit.destination == CLIENT
    ]
    assert heard.endswith('{ "id": 9, "name": "third", "f64": -inf } ]')
    type_cache = play.node.cache.type_cache("GoldenAll")
    (stored,) = [entry.payload for entry in type_cache.objects.values() if entry.present == 4102]
    expected = GOLDEN.GoldenAll(id=9, name="third", f64=float("-inf"))
    assert GOLDEN.GoldenAll.decode(stored) == expected


def publish_before(node: NodeCore) -> None:
    """The object that was there when the captured client came."""
    guest = ClientConnection(Wire(), name="golden-all", cnonce="", wants_preload=False)
    node.open(GUEST, Wire(), 1)
    for _ in range(2):
        for transmit in node.take_transmits():
            guest.receive(transmit.data, 0.0)
        node.receive(guest.take_output(), GUEST, 1)
    obj = GOLDEN.GoldenAll(id=2, name="second", f32=0.0, f64=float("inf"))
    header = Header("GoldenAll")
    header.sent_time = 1.0
    header.attributes = int(obj.attributes)
    guest.send(header, obj.encode(), obj.descriptor, 0.0)
    node.receive(guest.take_output(), GUEST, 2)
    node.take_transmits()


def without_times(text: str) -> str:
    return re.sub(r'("(?:sentTime|serverSentTime)": )[-0-9.e]+', r"\1...", text)


def test_client_understands_what_the_host_said() -> None:
    wire = JsonWire(TYPES)
    client = ClientConnection(wire, name="ws-client", cnonce="")
    for text in SAID:
        assert not [
            item
            for item in client.receive(text.encode(), 0.0)
            if isinstance(item, ConnectionBroken)
        ]
        if "DotsMsgConnectResponse" in text and '"accepted": true' in text:
            client.join("GoldenAll", 0.0)
            client.finish_joins(0.0)
    assert client.client_id == 3
    member = internal_class("DotsMember")
    (joined,) = [
        payload
        for text in cut_messages(client.take_output())
        for header, payload in JsonWire(TYPES).feed(text)
        if header.type_name == "DotsMember"
    ]
    assert member.decode(joined).groupName == "GoldenAll"
