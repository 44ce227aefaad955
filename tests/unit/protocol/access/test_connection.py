"""What both ends do alike: descriptions before objects, the end, and how the two fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, ClientConnection, Connected
from skerry.protocol.access.connection import (
    AccessConnection,
    ConnectionBroken,
    ConnectionEnded,
    ReceivedFrame,
    broken_by,
)
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.secrets import is_right_answer
from skerry.protocol.access.server import ConnectAsked, JoinsFinished, ServerConnection
from skerry.protocol.access.wire import OldWire, Wire
from skerry.schema.check import define
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType

TYPES = {
    type_.name: type_
    for type_ in define(
        """
        enum Color { 1: red, 2: green }
        struct Inner [substruct_only] { 1: Color color; }
        struct Outer { 1: [key] uint32 id; 2: vector<Inner> inner; 3: Color color; }
        struct Other { 1: [key] uint32 id; 2: Inner inner; }
        """,
        file="test.dots",
    ).types
}
NOW_S = 1_800_000_000.5
WIRES: dict[str, type[Wire]] = {"v1": OldWire, "v2": Wire}


def sent(connection: AccessConnection) -> list[tuple[Header, Any]]:
    """The queued output: headers, and names of described types or payloads."""
    waiting = connection.out_bytes
    data = connection.take_output()
    assert waiting == len(data)
    assert connection.out_bytes == 0
    return type(connection.wire)().feed(data)


def names(connection: AccessConnection) -> list[str]:
    found = []
    for header, payload in sent(connection):
        name = header.type_name
        if name in ("StructDescriptorData", "EnumDescriptorData"):
            name = f"describe {internal_class(name).decode(payload).name}"
        found.append(name)
    return found


def publish(connection: AccessConnection, type_: NamedType) -> Header:
    header = Header(type_.name)
    header.attributes = 2
    connection.send(header, b"\xa1\x01\x01", type_, NOW_S)
    return header


# -- descriptions


def test_the_types_of_fields_are_described_before_a_type_and_the_type_before_its_object() -> None:
    connection = AccessConnection(Wire())
    publish(connection, TYPES["Outer"])
    assert names(connection) == ["describe Color", "describe Inner", "describe Outer", "Outer"]


def test_each_type_is_described_once() -> None:
    connection = AccessConnection(Wire())
    publish(connection, TYPES["Outer"])
    publish(connection, TYPES["Outer"])
    connection.describe(TYPES["Outer"], NOW_S)
    publish(connection, TYPES["Other"])
    assert names(connection)[3:] == ["Outer", "Outer", "describe Other", "Other"]
    assert connection.is_described(TYPES["Inner"])
    assert not connection.is_described(ELSEWHERE)


def test_types_that_the_peer_described_are_not_described_again() -> None:
    connection = AccessConnection(Wire())
    connection.note_received(TYPES["Color"])
    connection.note_received(TYPES["Other"])
    assert connection.is_described(TYPES["Color"])
    assert connection.received == {name: TYPES[name] for name in ("Color", "Other")}
    publish(connection, TYPES["Outer"])
    publish(connection, TYPES["Other"])
    assert names(connection) == ["describe Inner", "describe Outer", "Outer", "Other"]


FIRST = define("struct Other { 1: [key] uint32 id; }", file="x.dots").types[0]
OTHER = define("struct Other { 1: [key] uint32 id; 9: string more; }", file="x.dots").types[0]
ELSEWHERE = define("struct Elsewhere { 1: [key] uint32 id; }", file="x.dots").types[0]


def test_a_plain_peer_keeps_the_first_definition_that_was_exchanged() -> None:
    connection = AccessConnection(Wire())
    publish(connection, FIRST)
    publish(connection, OTHER)
    assert names(connection) == ["describe Other", "Other", "Other"]
    assert connection.definition("Other") is FIRST
    connection.note_received(OTHER)
    assert connection.definition("Other") is OTHER, "what it says itself counts"
    assert connection.definition("Elsewhere") is None


def test_a_peer_with_our_additions_is_described_a_further_definition() -> None:
    connection = AccessConnection(Wire())
    connection.renews = True
    publish(connection, FIRST)
    publish(connection, OTHER)
    publish(connection, OTHER)
    assert names(connection) == ["describe Other", "Other", "describe Other", "Other", "Other"]
    assert connection.definition("Other") is None, "it reads by what it was given last"
    connection.note_received(FIRST)
    assert connection.definition("Other") is FIRST


def test_internal_types_are_never_described() -> None:
    connection = AccessConnection(Wire())
    for type_ in internal_types().values():
        connection.describe(type_, NOW_S)
    assert connection.take_output() == b""
    publish(connection, internal_types()["DotsClient"])
    publish(connection, internal_types()["DotsMember"])
    assert names(connection) == ["DotsClient", "DotsMember"]


def test_a_description_has_no_more_than_type_and_attributes_in_its_header() -> None:
    connection = AccessConnection(Wire())
    connection.describe(TYPES["Color"], NOW_S)
    ((header, payload),) = sent(connection)
    assert header.attributes == int(internal_class("EnumDescriptorData").decode(payload).attributes)
    assert (header.sent_time, header.sender, header.remove_obj) == (NEVER, ABSENT, ABSENT)


# -- headers


def test_a_message_of_our_own_has_time_attributes_and_that_it_removes_nothing() -> None:
    connection = AccessConnection(Wire())
    connection.send_message(internal_class("DotsMsgError")(errorCode=7), NOW_S)
    ((header, payload),) = sent(connection)
    assert (header.sent_time, header.attributes, header.remove_obj) == (NOW_S, 2, 0)
    assert (header.sender, header.server_sent_time) == (ABSENT, NEVER)
    assert payload == b"\xa1\x01\x07"


def test_old_programs_receive_time_and_sender_in_every_header() -> None:
    connection = AccessConnection(OldWire())
    publish(connection, TYPES["Other"])
    connection.send_message(internal_class("DotsMsgError")(errorCode=0), NOW_S)
    arrived = sent(connection)
    assert len(arrived) == 5
    assert {(header.sent_time, header.sender) for header, _ in arrived} == {(NOW_S, 1)}


def test_old_programs_receive_an_existing_time_and_sender_unchanged() -> None:
    connection = AccessConnection(OldWire())
    header = Header("DotsClient")
    header.attributes, header.sent_time, header.sender = 2, 3.5, 9
    connection.send(header, b"\xa0", internal_types()["DotsClient"], NOW_S)
    ((arrived, _),) = sent(connection)
    assert (arrived.sent_time, arrived.sender) == (3.5, 9)


@pytest.mark.parametrize("framing", ["v1", "v2"])
def test_a_header_can_be_sent_on_many_connections(framing: str) -> None:
    header = publish(AccessConnection(WIRES[framing]()), TYPES["Other"])
    assert (header.sent_time, header.sender) == (NEVER, ABSENT)
    connection = AccessConnection(WIRES[framing]())
    with pytest.raises(EncodeError):
        connection.send(header, bytes(FRAME_BYTES_MAX), TYPES["Color"], NOW_S)
    assert (header.sent_time, header.sender) == (NEVER, ABSENT)


# -- the end


def server_in(stage: ConnectionStage, wire: Wire) -> ServerConnection:
    """A connection in this stage, without output."""
    server = ServerConnection(wire, client_id=7)
    preload = stage is ConnectionStage.EARLY_SUBSCRIBE
    if stage is ConnectionStage.CLOSED:
        server.close()
    elif stage is not ConnectionStage.CONNECTING:
        asked = ConnectAsked(name="c", wants_preload=preload, response="", cnonce="", extensions=0)
        server.accept(asked, NOW_S)
    server.take_output()
    assert server.stage is stage
    return server


@pytest.mark.parametrize(
    "stage", [ConnectionStage.CONNECTING, ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CLOSED]
)
@pytest.mark.parametrize("wire", [Wire, lambda: JsonWire(internal_types())])
def test_a_peer_that_is_not_connected_is_not_sent_the_reason_of_the_end(
    stage: ConnectionStage, wire: Callable[[], Wire]
) -> None:
    connection = server_in(stage, wire())
    connection.end(NOW_S, code=1, text="why")
    assert connection.take_output() == b""
    assert connection.stage is ConnectionStage.CLOSED


def test_a_fault_names_what_is_broken_once() -> None:
    for error, expected in (
        (
            DecodeError(type_name="JSON", detail="not JSON: no value"),
            ("JSON", "not JSON: no value"),
        ),
        (
            DecodeError(type_name="A", field="b", detail="is missing", offset=4),
            ("A.b", "is missing at byte 4"),
        ),
    ):
        broken = broken_by(error)
        assert (broken.message, broken.detail) == expected


@pytest.mark.parametrize(("code", "text"), [(0, None), (1, "why")])
def test_a_connected_peer_is_sent_the_reason_of_the_end_once(code: int, text: str | None) -> None:
    connection = server_in(ConnectionStage.CONNECTED, Wire())
    connection.end(NOW_S, code=code, text=text or "")
    connection.end(NOW_S, code=5, text="again")
    ((header, payload),) = sent(connection)
    message = internal_class(header.type_name).decode(payload)
    assert message == internal_class("DotsMsgError")(errorCode=code, errorText=text)
    assert connection.stage is ConnectionStage.CLOSED


def test_stages_have_the_tags_of_the_published_states() -> None:
    states = internal_class("DotsConnectionState")
    assert {stage: states.of_tag(stage.value).label for stage in ConnectionStage} == {
        ConnectionStage.CONNECTING: "connecting",
        ConnectionStage.EARLY_SUBSCRIBE: "early_subscribe",
        ConnectionStage.CONNECTED: "connected",
        ConnectionStage.CLOSED: "closed",
    }


# -- both ends together


class Pair:
    """A client and a node that exchange bytes, and the inputs of each."""

    def __init__(self, framing: str, *, wants_preload: bool, challenge: int | None) -> None:
        self.random = Random(framing)
        self.server = ServerConnection(WIRES[framing](), client_id=7)
        self.client = ClientConnection(
            WIRES[framing](), name="c", cnonce="n", secret="s", wants_preload=wants_preload
        )
        self.challenge = challenge
        self.server_inputs: list[Any] = []
        self.client_inputs: list[Any] = []
        self.server.greet("node", NOW_S, challenge=challenge)

    def settle(self) -> None:
        while self.server.out_bytes or self.client.out_bytes:
            for piece in self.pieces(self.client.take_output()):
                for item in inputs_of(self.server, piece):
                    self.server_inputs.append(item)
                    self.serve(item)
            for piece in self.pieces(self.server.take_output()):
                for got in self.client.receive(piece, NOW_S):
                    self.client_inputs.append(got)
                    self.use(got)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            size = self.random.randint(1, 40)
            yield data[:size]
            data = data[size:]

    def serve(self, item: object) -> None:
        if isinstance(item, ConnectAsked):
            if self.challenge is not None:
                answer, nonce = item.response, self.challenge
                assert is_right_answer(answer, name="c", secret="s", nonce=nonce, cnonce="n")
            self.server.accept(item, NOW_S)
        elif isinstance(item, JoinsFinished):
            self.server.finish_preload(NOW_S)
        elif isinstance(item, ConnectionEnded):
            self.server.close()

    def use(self, item: object) -> None:
        if isinstance(item, Accepted):
            self.client.describe(TYPES["Outer"], NOW_S)
            self.client.join("Outer", NOW_S)
            if item.has_preload:
                self.client.finish_joins(NOW_S)


def inputs_of(server: ServerConnection, data: bytes) -> Iterator[Any]:
    """What bytes mean, one after the other, as the node takes them."""
    arrived, fault = server.feed(data)
    assert fault is None
    for header, payload in arrived:
        if not server.is_over:
            yield server.understand(header, payload)


def kinds(inputs: list[Any]) -> list[str]:
    return [
        h.header.type_name if isinstance(h, ReceivedFrame) else type(h).__name__ for h in inputs
    ]


@pytest.mark.parametrize("challenge", [None, 0, 2**64 - 1])
@pytest.mark.parametrize("wants_preload", [False, True])
@pytest.mark.parametrize("framing", ["v1", "v2"])
def test_a_client_and_a_node_complete_the_handshake(
    framing: str, wants_preload: bool, challenge: int | None
) -> None:
    pair = Pair(framing, wants_preload=wants_preload, challenge=challenge)
    pair.settle()
    assert (pair.client.stage, pair.server.stage) == (
        ConnectionStage.CONNECTED,
        ConnectionStage.CONNECTED,
    )
    assert (pair.client.client_id, pair.client.server_name) == (7, "node")
    assert pair.server.name == "c"
    described = ["EnumDescriptorData", "StructDescriptorData", "StructDescriptorData"]
    finish = ["JoinsFinished"] if wants_preload else []
    assert kinds(pair.server_inputs) == ["ConnectAsked", *described, "DotsMember", *finish]
    accepted = Accepted(client_id=7, has_preload=wants_preload)
    assert pair.client_inputs == [accepted, *([Connected()] if wants_preload else [])]


@pytest.mark.parametrize("framing", ["v1", "v2"])
def test_either_end_can_close_and_then_discards_input(framing: str) -> None:
    for ending in ("client", "server"):
        pair = Pair(framing, wants_preload=True, challenge=None)
        pair.settle()
        leaving, left, inputs = (
            (pair.client, pair.server, pair.server_inputs)
            if ending == "client"
            else (pair.server, pair.client, pair.client_inputs)
        )
        leaving.end(NOW_S)
        publish(leaving, TYPES["Other"])
        pair.settle()
        assert inputs[-1] == ConnectionEnded(code=0, text="")
        publish(left, TYPES["Other"])
        if isinstance(leaving, ServerConnection):
            assert leaving.is_over
        else:
            assert leaving.receive(left.take_output(), NOW_S) == []


def test_a_fault_of_the_framing_follows_complete_frames_once() -> None:
    pair = Pair("v2", wants_preload=False, challenge=None)
    pair.settle()
    connection = pair.client
    whole = AccessConnection(Wire())
    publish(whole, internal_types()["DotsClient"])
    data = whole.take_output() + b"\x00"
    arrival, fault = connection.receive(data, NOW_S)
    assert isinstance(arrival, ReceivedFrame)
    assert arrival.header.type_name == "DotsClient"
    assert isinstance(fault, ConnectionBroken)
    assert fault.message == "frame"
    assert fault.detail.startswith("a frame begins with 0x1a, found 0x00")
    assert connection.receive(data, NOW_S) == []
    assert connection.stage is ConnectionStage.CONNECTED, "so that the end can be explained"


def test_frames_are_added_to_the_queue_of_the_caller() -> None:
    outgoing = Outgoing()
    connection = AccessConnection(Wire(), outgoing)
    assert connection.outgoing is outgoing
    publish(connection, internal_types()["DotsClient"])
    assert (connection.out_bytes, outgoing.frame_count) == (outgoing.size, 1)
    assert len(connection.take_output()) > 0
    assert outgoing.size == 0
