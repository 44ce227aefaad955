"""What the C++ host cuts a guest for, in both framings: so does our node, and no other notices.

The list is that of the failures which were seen at the real host or follow from its code. A guest
that is connected gets a DotsMsgError with the number 1 and nothing else; one that is not gets no
word. Bytes are written here without any encoder of ours.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import cbor2
import pytest

from skerry.engine.node import NodeCore
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect

WALL_NS = 1_700_000_000_000_000_000
DESCRIBED = {
    "Thing": [
        ("id", 1, True, "uint8"),
        ("value", 2, False, "float32"),
        ("count", 3, False, "int16"),
    ],
    "Shout": [("text", 1, False, "string")],
    "Part": [("flag", 1, False, "bool")],
    "Mood": [("id", 1, True, "uint32"), ("colour", 2, False, "Colour")],
}
FLAGS = {1: True, 2: False, 3: False, 4: False, 5: False, 6: False}
COLOUR = {1: "Colour", 2: [{1: 0, 2: "red", 3: 1}, {1: 9, 2: "blue", 3: 7}]}


def struct_of(name: str) -> dict[int, Any]:
    fields = [{1: n, 2: tag, 3: key, 4: type_} for n, tag, key, type_ in DESCRIBED[name]]
    own = FLAGS | ({1: False} if name == "Shout" else {}) | ({6: True} if name == "Part" else {})
    return {1: name, 2: fields, 5: own}


def frame(framing: str, header: dict[int, Any], payload: bytes) -> bytes:
    if framing == "v2":
        body = cbor2.dumps(header) + payload
        return b"\x1a" + struct.pack(">I", len(body)) + body
    outer = cbor2.dumps({2: header.get(1, ""), 3: header, 4: len(payload)})
    return struct.pack("<H", len(outer)) + outer + payload


def message(framing: str, name: str, fields: dict[int, Any]) -> bytes:
    mask = sum(1 << tag for tag in fields)
    header = {1: name, 2: 1.0, 3: mask, 4: False}
    return frame(framing, header, cbor2.dumps(fields))


class Talk:
    """A node with a bystander who follows all there is, and the guest that breaks a rule."""

    def __init__(self, framing: str, *, stage: str = "connected") -> None:
        self.framing = framing
        self.node = NodeCore(name="dotsd", wall_offset_ns=WALL_NS, extensions=False)
        self.heard: dict[Address, list[tuple[dict[int, Any], dict[int, Any]]]] = {}
        self.cut: set[Address] = set()
        self.bystander = self._come("v2", 1)
        self.say(self.bystander, connect("v2", preload=False), "v2")
        for group in ("DotsClient", "Thing", "Shout", "Mood", "Part", "DotsClearCache"):
            self.say(self.bystander, message("v2", "DotsMember", {1: group, 2: 1}), "v2")
        self.guest = self._come(framing, 2)
        if stage != "connecting":
            self.say(self.guest, connect(framing, preload=stage == "early"))
        if stage == "connected":
            self.say(self.guest, message(framing, "EnumDescriptorData", COLOUR))
            for name in DESCRIBED:
                described = message(framing, "StructDescriptorData", struct_of(name))
                self.say(self.guest, described)
            self.say(self.guest, message(framing, "Thing", {1: 5, 3: 7}))
            assert self.names(self.bystander).count("Thing") == 1
        self.heard[self.guest].clear()
        self.heard[self.bystander].clear()
        assert self.guest not in self.cut

    def _come(self, framing: str, number: int) -> Address:
        address = Address(framing, number, is_stream=True)
        self.heard[address] = []
        self.node.open(address, OldWire() if framing == "v1" else Wire(), 0)
        self.listen()
        return address

    def say(self, who: Address, data: bytes, framing: str | None = None) -> None:
        self.node.receive(data, who, 0)
        self.listen()

    def listen(self) -> None:
        while (due := self.node.deadline_ns()) is not None and due <= 0:
            self.node.advance(0)
        for transmit in self.node.take_transmits():
            if isinstance(transmit, Disconnect):
                self.cut.add(transmit.destination)
            else:
                found = transmissions(transmit.destination.host, transmit.data)
                self.heard[transmit.destination] += found

    def names(self, who: Address) -> list[str]:
        return [header[1] for header, _ in self.heard[who]]

    def check_cut(self, *, with_a_word: bool) -> None:
        """The guest is disconnected with the reason; the other clients only see its state."""
        assert self.guest in self.cut
        if with_a_word:
            ((header, error),) = self.heard[self.guest]
            assert header[1] == "DotsMsgError"
            assert error[1] == 1
            assert error[2]
        else:
            assert self.heard[self.guest] == []
        assert self.bystander not in self.cut
        assert set(self.names(self.bystander)) == {"DotsClient"}
        assert [fields.get(6) for _, fields in self.heard[self.bystander]] == [5]
        self.heard[self.bystander].clear()
        self.say(self.bystander, message("v2", "DotsEcho", {1: True, 3: 9}), "v2")
        assert [fields[3] for _, fields in self.heard[self.bystander]] == [9]


def connect(framing: str, *, preload: bool) -> bytes:
    return message(framing, "DotsMsgConnect", {1: "guest", 2: preload})


def transmissions(framing: str, data: bytes) -> list[tuple[dict[int, Any], dict[int, Any]]]:
    found, stream = [], io.BytesIO(data)
    while stream.tell() < len(data):
        stream.read(5 if framing == "v2" else 2)
        header = cbor2.load(stream)
        found.append((header if framing == "v2" else header[3], cbor2.load(stream)))
    return found


@pytest.fixture(params=["v2", "v1"])
def framing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


HEADER = {1: "Thing", 2: 1.0, 3: 2, 4: False}
PAYLOADS = {
    "a null": b"\xa2\x01\x05\x02\xf6",
    "undefined": b"\xa2\x01\x05\x02\xf7",
    "an indefinite map": b"\xbf\x01\x05\xff",
    "an indefinite array for a number": b"\xa1\x01\x9f\x05\xff",
    "an integer for a float": b"\xa2\x01\x05\x02\x01",
    "a double for a float32": b"\xa2\x01\x05\x02\xfb" + struct.pack(">d", 0.5),
    "a number that is wider than declared": b"\xa1\x01\x19\x01\x00",
    "a wider negative number": b"\xa2\x01\x05\x03\x3a\x00\x01\x00\x00",
    "a text for a number": b"\xa1\x01\x61x",
    "a negative number for an unsigned one": b"\xa1\x01\x20",
    "a tag of CBOR": b"\xa1\x01\xc1\x05",
    "a list for an object": b"\x81\x05",
    "an object that ends early": b"\xa2\x01\x05",
    "bytes behind the object": b"\xa1\x01\x05\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_payload_that_does_not_decode_ends_the_sender(framing: str, payload: bytes) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, frame(framing, HEADER | {3: 14}, payload))
    talk.check_cut(with_a_word=True)


VIOLATIONS: dict[str, tuple[dict[int, Any], bytes]] = {
    "an unknown type": (HEADER | {1: "Nobody"}, b"\xa1\x01\x05"),
    "an enum as an object": (HEADER | {1: "Colour"}, b"\xa1\x01\x05"),
    "a header without a type": ({2: 1.0, 3: 2}, b"\xa1\x01\x05"),
    "a header without attributes": ({1: "Thing", 2: 1.0}, b"\xa1\x01\x05"),
    "a missing key": (HEADER | {3: 4}, b"\xa1\x02\xfa\x00\x00\x00\x00"),
    "a missing key of an internal type": (HEADER | {1: "DotsClient", 3: 8}, b"\xa1\x03\xf5"),
    "a missing key in a remove": (HEADER | {4: True}, b"\xa0"),
    "a remove of what is not cached": (HEADER | {1: "Shout", 4: True}, b"\xa1\x01\x61x"),
    "a part alone": (HEADER | {1: "Part"}, b"\xa1\x01\xf5"),
    "an element that the enum does not have": (HEADER | {1: "Mood", 3: 6}, b"\xa2\x01\x05\x02\x03"),
    "a member without a group": (HEADER | {1: "DotsMember", 3: 4}, b"\xa1\x02\x01"),
    "a member without an event": (HEADER | {1: "DotsMember"}, b"\xa1\x01\x61x"),
    "a clear without names": (HEADER | {1: "DotsClearCache", 3: 0}, b"\xa0"),
    "a greeting": (HEADER | {1: "DotsMsgHello"}, b"\xa1\x01\x61x"),
    "an answer to a connect": (HEADER | {1: "DotsMsgConnectResponse", 3: 4}, b"\xa1\x02\xf5"),
    "another connect": (HEADER | {1: "DotsMsgConnect", 3: 6}, b"\xa2\x01\x61x\x02\xf4"),
    "a finish when all is finished": (HEADER | {1: "DotsMsgConnect", 3: 8}, b"\xa1\x03\xf5"),
    "an error of its own": (HEADER | {1: "DotsMsgError", 3: 6}, b"\xa2\x01\x05\x02\x61x"),
}


@pytest.mark.parametrize(("header", "payload"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_violation_ends_the_sender(framing: str, header: dict[int, Any], payload: bytes) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, frame(framing, header, payload))
    talk.check_cut(with_a_word=True)


def test_error_of_a_guest_is_answered_with_its_text(framing: str) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, message(framing, "DotsMsgError", {1: 5, 2: "lost my mind"}))
    ((_, error),) = talk.heard[talk.guest]
    assert error[2] == "received DOTS error: (5) lost my mind"


def described(fields: list[tuple[str, int, bool, str]]) -> dict[int, Any]:
    return {
        1: "New",
        2: [{1: name, 2: tag, 3: key, 4: type_} for name, tag, key, type_ in fields],
        5: FLAGS,
    }


@pytest.mark.parametrize(
    "payload",
    [
        described([("id", 1, True, "Missing")]),
        described([("id", 1, True, "vector<vector<int32>>")]),
        described([("id", 1, True, "vector<Missing>")]),
        described([("id", 1, True, "uint32"), ("more", 1, False, "uint32")]),
        {1: "New", 2: [{1: "id", 2: 1, 4: "uint32"}], 5: FLAGS},
        {2: [{1: "id", 2: 1, 3: True, 4: "uint32"}], 5: FLAGS},
    ],
    ids=[
        *("unknown dependency", "nested vector", "vector of the unknown", "a tag twice"),
        *("property without isKey", "no name"),
    ],
)
def test_description_that_is_none_ends_the_sender(framing: str, payload: dict[int, Any]) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, message(framing, "StructDescriptorData", payload))
    talk.check_cut(with_a_word=True)


@pytest.mark.parametrize(
    ("stage", "name", "fields"),
    [
        ("connecting", "Thing", {1: 5}),
        ("connecting", "DotsMember", {1: "Thing", 2: 1}),
        ("connecting", "DotsMsgConnect", {1: "guest"}),
        ("connecting", "DotsMsgConnect", {2: False}),
        ("connecting", "DotsMsgConnect", {3: True}),
        ("connecting", "DotsMsgHello", {1: "host"}),
        ("connecting", "DotsMsgError", {1: 1}),
        ("early", "DotsMsgConnect", {3: False}),
        ("early", "DotsMsgConnect", {1: "guest", 2: True}),
        ("early", "DotsMsgHello", {1: "host"}),
        ("early", "Nobody", {1: 5}),
        ("early", "DotsMember", {1: "Thing"}),
    ],
)
def test_violation_before_it_is_connected_ends_a_guest_without_a_word(
    framing: str, stage: str, name: str, fields: dict[int, Any]
) -> None:
    talk = Talk(framing, stage=stage)
    talk.say(talk.guest, message(framing, name, fields))
    talk.check_cut(with_a_word=False)


@pytest.mark.parametrize("stage", ["connecting", "early", "connected"])
def test_bytes_that_are_no_frame_end_the_sender(stage: str) -> None:
    talk = Talk("v2", stage=stage)
    talk.say(talk.guest, b"\x00\x00\x00\x00\x00\x00")
    talk.check_cut(with_a_word=stage == "connected")


@pytest.mark.parametrize("stage", ["connecting", "early", "connected"])
def test_plain_end_of_a_stream_is_noticed_by_the_state_alone(framing: str, stage: str) -> None:
    talk = Talk(framing, stage=stage)
    talk.node.stream_closed(talk.guest, CloseReason.ENDED, 0)
    talk.cut.add(talk.guest)
    talk.listen()
    talk.check_cut(with_a_word=False)


def test_orderly_end_is_not_answered(framing: str) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, message(framing, "DotsMsgError", {1: 0}))
    talk.check_cut(with_a_word=False)


def test_what_was_sent_before_a_violation_counts(framing: str) -> None:
    talk = Talk(framing)
    good = message(framing, "Thing", {1: 6})
    bad = frame(framing, HEADER | {1: "Nobody"}, b"\xa0")
    talk.say(talk.guest, good + bad + good)
    assert talk.names(talk.bystander) == ["Thing", "DotsClient"]
    assert talk.guest in talk.cut


HARMLESS: dict[str, tuple[str, dict[int, Any]]] = {
    "joining twice": ("DotsMember", {1: "Thing", 2: 1}),
    "leaving what it is not in": ("DotsMember", {1: "Shout", 2: 2}),
    "kill": ("DotsMember", {1: "Thing", 2: 3}),
    "a join of the unknown": ("DotsMember", {1: "Nobody", 2: 1}),
    "an answer to no echo": ("DotsEcho", {1: False, 3: 1}),
    "a clear of the unknown": ("DotsClearCache", {1: ["Nobody"]}),
    "a request for the unknown": ("DotsDescriptorRequest", {1: ["Nobody"]}),
    "an object that is not there": ("Thing", {1: 200}),
}


@pytest.mark.parametrize(("name", "fields"), HARMLESS.values(), ids=HARMLESS.keys())
def test_what_the_host_only_warns_of_ends_nobody(
    framing: str, name: str, fields: dict[int, Any]
) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, message(framing, "DotsMember", {1: "Thing", 2: 1}))
    is_remove = name == "Thing"
    header = {1: name, 2: 1.0, 3: sum(1 << tag for tag in fields), 4: is_remove}
    talk.say(talk.guest, frame(framing, header, cbor2.dumps(fields)))
    talk.say(talk.guest, message(framing, "DotsEcho", {1: True, 3: 7}))
    assert talk.guest not in talk.cut
    assert talk.heard[talk.guest][-1][1][3] == 7


# -- orders that are odd and allowed


def test_guest_may_join_before_it_describes_and_publish_before_it_is_connected(
    framing: str,
) -> None:
    talk = Talk(framing, stage="early")
    talk.say(talk.guest, message(framing, "DotsMember", {1: "Thing", 2: 1}))
    # The host does not know the type, and says nothing.
    assert talk.heard[talk.guest] == []
    talk.say(talk.guest, message(framing, "StructDescriptorData", struct_of("Thing")))
    talk.say(talk.guest, message(framing, "StructDescriptorData", struct_of("Thing")))
    talk.say(talk.guest, message(framing, "Thing", {1: 1}))
    talk.say(talk.guest, message(framing, "DotsMsgConnect", {3: True}))
    # It described the type itself, so it is not described to it.
    assert talk.names(talk.guest) == ["Thing", "DotsMsgConnectResponse"]
    assert talk.names(talk.bystander).count("StructDescriptorData") == 1
    assert "Thing" in talk.names(talk.bystander)
    assert talk.guest not in talk.cut


def test_guest_that_says_all_at_once_is_answered_in_order(framing: str) -> None:
    talk = Talk(framing, stage="connecting")
    thing = message(framing, "Thing", {1: 1})
    talk.say(
        talk.guest,
        b"".join(
            [
                connect(framing, preload=True),
                message(framing, "StructDescriptorData", struct_of("Thing")),
                message(framing, "DotsMember", {1: "Thing", 2: 1}),
                message(framing, "DotsMsgConnect", {3: True}),
                thing,
                message(framing, "DotsEcho", {1: True, 3: 4}),
                message(framing, "DotsMsgError", {1: 0}),
            ]
        ),
    )
    assert talk.names(talk.guest) == [
        *("DotsMsgConnectResponse", "DotsCacheInfo", "DotsMsgConnectResponse"),
        *("Thing", "DotsEcho"),
    ]
    assert talk.guest in talk.cut


def test_header_without_a_time_gets_that_of_the_host(framing: str) -> None:
    talk = Talk(framing)
    talk.say(talk.guest, frame(framing, {1: "Thing", 3: 2}, b"\xa1\x01\x09"))
    ((header, _),) = talk.heard[talk.bystander]
    assert header[2] == header[7] == WALL_NS / 1e9
    assert header[6] is False
