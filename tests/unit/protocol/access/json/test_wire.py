"""The JSON framing: objects are preserved, and malformed transmissions are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX, JSON_PIECE_BYTES, JSON_STEP_BYTES
from skerry.objects.classes import class_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.wire import Wire
from skerry.schema.model import NamedType, StructType
from tests.strategies import objects_of, type_sets

TYPES = skerry.define_types(
    """
    enum Colour { 1: red }
    struct Boat { 1: [key] uint32 id; 2: string name; 3: float64 lat; 4: Colour colour; }
    """
)
UNITS_PER_PIECE_MAX = 1 + 5 * JSON_PIECE_BYTES
BOAT: Any = TYPES.Boat
KNOWN: dict[str, NamedType] = {
    "Boat": BOAT.descriptor,
    "Colour": TYPES.Colour.descriptor,
}


def header_of(name: str, attributes: int = 6) -> Header:
    header = Header(name)
    header.attributes = attributes
    return header


def sent(wire: JsonWire, header: Header, payload: bytes) -> bytes:
    (message,) = cut_messages(wire.frame(header, payload))
    return message


def through(wire: JsonWire, header: Header, payload: bytes) -> tuple[Header, bytes]:
    (arrived,) = wire.feed(sent(wire, header, payload))
    return arrived


@st.composite
def some_objects(draw: st.DrawFn) -> tuple[dict[str, NamedType], Any]:
    known = draw(type_sets())
    structs = [type_ for type_ in known if isinstance(type_, StructType)]
    if not structs:
        return {}, internal_class("DotsEcho")()
    struct = draw(st.sampled_from(structs))
    return {type_.name: type_ for type_ in known}, draw(objects_of(struct))


@pytest.mark.slow
@settings(max_examples=40)
@given(some_objects())
def test_any_object_passes(drawn: tuple[dict[str, NamedType], Any]) -> None:
    known, obj = drawn
    wire = JsonWire(known)
    header, payload = through(wire, header_of(obj.descriptor.name), obj.encode())
    assert header.type_name == obj.descriptor.name
    cls = class_of(obj.descriptor)
    # Not by bytes: there are many kinds of NaN, and one text for them.
    assert repr(cls.decode(payload)) == repr(cls.decode(obj.encode()))


@pytest.mark.slow
@settings(max_examples=40)
@given(some_objects())
def test_any_object_is_read_in_steps_as_at_once(drawn: tuple[dict[str, NamedType], Any]) -> None:
    known, obj = drawn
    wire = JsonWire(known)
    data = sent(wire, header_of(obj.descriptor.name), obj.encode())
    ((_, payload),) = wire.feed(data)
    for piece_bytes in (16, 30, 100, JSON_PIECE_BYTES):
        assert in_steps(wire, data, 1, piece_bytes)[0] == payload


def in_steps(
    wire: JsonWire, data: bytes, count: int, piece_bytes: int = JSON_PIECE_BYTES
) -> tuple[bytes, int]:
    """The object of a message, and the most work that a step took."""
    reading, most = wire.begin_reading(data, piece_bytes=piece_bytes), 0
    while reading.message is None:
        most = max(most, reading.step(count))
    return reading.message[1], most


def test_a_large_message_is_read_in_steps_of_so_many_values() -> None:
    types = skerry.define_types(
        "struct Part { 1: vector<uint8> few; }"
        "struct Bulk { 1: vector<float64> values; 2: vector<Part> parts; 3: vector<string> words; }"
    )
    bulk = types.Bulk(
        values=[1.5] * 5000, parts=[types.Part(few=[1, 2])] * 5000, words=["word"] * 5000
    )
    wire = JsonWire({"Bulk": bulk.descriptor})
    data = sent(wire, header_of("Bulk", 14), bulk.encode())
    assert len(data) > JSON_STEP_BYTES
    assert wire.reading(data) is not None
    payload, most = in_steps(wire, data, 1000)
    assert payload == bulk.encode()
    # A step ends after the piece that reaches the count.
    assert 1000 <= most < 1000 + UNITS_PER_PIECE_MAX
    assert wire.reading(data[:JSON_STEP_BYTES]) is None


@pytest.mark.parametrize(
    "text", ["nonsense", "[1, 2]", '[{"typeName": "Boat", "attributes": 2}, {"id": "x"}]']
)
def test_faults_are_found_in_steps_as_in_one_call(text: str) -> None:
    with pytest.raises(DecodeError) as at_once:
        JsonWire(KNOWN).feed(text.encode())
    with pytest.raises(DecodeError) as in_them:
        in_steps(JsonWire(KNOWN), text.encode(), 1)
    assert str(in_them.value).split(": ")[:2] == str(at_once.value).split(": ")[:2]


def test_frame_is_the_text_behind_its_length() -> None:
    frame = JsonWire(KNOWN).frame(header_of("Boat"), BOAT(id=1, name="ä").encode())
    text = '[ { "typeName": "Boat", "attributes": 6 }, { "id": 1, "name": "ä" } ]'.encode()
    assert frame == len(text).to_bytes(4, "big") + text


def test_joined_frames_are_cut_apart() -> None:
    wire = JsonWire(KNOWN)
    frames = [wire.frame(header_of("Boat"), BOAT(id=number).encode()) for number in range(3)]
    messages = cut_messages(b"".join(frames))
    assert [json.loads(message)[1] for message in messages] == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert cut_messages(b"") == []


def test_whole_header_passes() -> None:
    header = header_of("Boat", attributes=2**32 - 1)
    header.sent_time = 1700000000.25
    header.server_sent_time = -1.5
    header.sender = 2**32 - 1
    header.from_cache = 0
    header.remove_obj = 1
    header.is_from_myself = 0
    header.subscription_id = 7
    header.subject = "/a/b"
    header.sequence = 2**63 - 1
    header.position = 2**63 - 1
    header.node = -(2**63)
    wire = JsonWire(KNOWN)
    text = sent(wire, header, BOAT(id=1).encode()).decode()
    assert text.startswith(
        '[ { "typeName": "Boat", "sentTime": 1700000000.25, "serverSentTime": -1.5,'
        ' "attributes": 4294967295, "sender": 4294967295, "fromCache": 0, "removeObj": true,'
        ' "isFromMyself": false, "subscriptionId": 7, "subject": "/a/b",'
        ' "sequence": 9223372036854775807, "position": 9223372036854775807,'
        ' "node": -9223372036854775808 }, '
    )
    again, _ = through(wire, header, BOAT(id=1).encode())
    assert vars_of(again) == vars_of(header)


def vars_of(header: Header) -> dict[str, Any]:
    return {name: getattr(header, name) for name in dir(header) if not name.startswith("_")}


def test_missing_fields_of_a_header_are_absent() -> None:
    ((header, payload),) = JsonWire(KNOWN).feed(
        b'[{"typeName": "Boat", "attributes": null, "nobody": {"knows": []}}, {}]'
    )
    assert vars_of(header) == vars_of(Header("Boat"))
    assert header.attributes == ABSENT
    assert header.sent_time == NEVER
    assert payload == b"\xa0"


def test_fields_outside_of_the_attributes_are_kept() -> None:
    ((header, payload),) = JsonWire(KNOWN).feed(
        b'[{"typeName": "Boat", "attributes": 2}, {"name": "x", "id": 1}]'
    )
    assert header.attributes == 2
    assert BOAT.decode(payload) == BOAT(id=1, name="x")


def test_type_may_become_known_later() -> None:
    known: dict[str, NamedType] = {}
    wire = JsonWire(known)
    known["Boat"] = BOAT.descriptor
    assert through(wire, header_of("Boat"), BOAT(id=1).encode())[1] == BOAT(id=1).encode()


def test_internal_types_are_always_known() -> None:
    echo = internal_class("DotsEcho")(request=True, data="x")
    assert through(JsonWire({}), header_of("DotsEcho"), echo.encode())[1] == echo.encode()
    data = internal_class("SkerryBytes")(data=b"\x00\xff")
    assert b'{ "data": "AP8=" }' in sent(JsonWire({}), header_of("SkerryBytes"), data.encode())


def test_text_that_is_not_utf_8_is_preserved() -> None:
    payload = b"\xa2\x01\x01\x02\x64a\xff\xc3z"
    wire = JsonWire(KNOWN)
    assert b'"name": "a\\udcff\\udcc3z"' in sent(wire, header_of("Boat"), payload)
    assert through(wire, header_of("Boat"), payload)[1] == payload


def test_names_are_spelled_as_on_every_other_road() -> None:
    # Escapes could hide a subject from rules about it, and come out as that subject.
    text = rb'[{"typeName": "Boat", "attributes": 2, "subject": "/s\udcc3\udca9"}, {}]'
    ((header, _),) = JsonWire(KNOWN).feed(text)
    assert header.subject == "/sé"


def test_no_bytes_are_no_message() -> None:
    assert JsonWire(KNOWN).feed(b"") == []


def test_a_fault_stays() -> None:
    wire = JsonWire(KNOWN)
    with pytest.raises(DecodeError, match="not JSON"):
        wire.feed(b"[")
    for data in (b"", b'[{"typeName": "DotsEcho", "attributes": 0}, {}]'):
        with pytest.raises(DecodeError, match="not JSON"):
            wire.feed(data)


def test_its_frames_are_of_no_version() -> None:
    wire: Wire = JsonWire(KNOWN)
    assert wire.version not in (1, 2)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("null", r"expected \[ header, object \]"),
        ("[]", r"expected \[ header, object \]"),
        ("{}", r"expected \[ header, object \]"),
        ("[{}]", r"expected \[ header, object \]"),
        ("[{}, {}, {}]", r"expected \[ header, object \]"),
        ("[1, {}]", "DotsHeader: expected an object with fields"),
        ("[{}, {}]", "DotsHeader.typeName: is missing"),
        ('[{"typeName": ""}, {}]', "DotsHeader.typeName: is missing"),
        ('[{"typeName": 1}, {}]', "DotsHeader.typeName"),
        (r'[{"typeName": "\ud800"}, {}]', "DotsHeader.typeName"),
        (r'[{"typeName": "Boat", "subject": "\udc00"}, {}]', "DotsHeader.subject"),
        ('[{"typeName": "Boat", "sentTime": "now"}, {}]', "DotsHeader.sentTime"),
        ('[{"typeName": "Boat", "sentTime": -1e300}, {}]', "DotsHeader.sentTime"),
        ('[{"typeName": "Boat", "attributes": -1}, {}]', "DotsHeader.attributes"),
        ('[{"typeName": "Boat", "attributes": 4294967296}, {}]', "DotsHeader.attributes"),
        ('[{"typeName": "Boat", "attributes": 6.0}, {}]', "DotsHeader.attributes"),
        ('[{"typeName": "Boat", "sender": true}, {}]', "DotsHeader.sender"),
        ('[{"typeName": "Boat", "removeObj": 1}, {}]', "DotsHeader.removeObj"),
        ('[{"typeName": "Boat", "position": 9223372036854775808}, {}]', "DotsHeader.position"),
        ('[{"typeName": "Boat", "node": 9223372036854775808}, {}]', "DotsHeader.node"),
        ('[{"typeName": "Nobody"}, {}]', "Nobody: there is no such type"),
        ('[{"typeName": "Colour"}, 1]', "Colour: there is no such type"),
        ('[{"typeName": "Boat"}, null]', "Boat: expected an object with fields"),
        ('[{"typeName": "Boat"}, {"id": -1}]', "Boat.id: -1 is out of the range of uint32"),
        ('[{"typeName": "Boat"}, {"id": 1.0}]', "Boat.id"),
        ('[{"typeName": "Boat"}, {"id": true}]', "Boat.id"),
        ('[{"typeName": "Boat"}, {"id": "1"}]', "Boat.id"),
        ('[{"typeName": "Boat"}, {"id": [1]}]', "Boat.id"),
        ('[{"typeName": "Boat"}, {"id": %s}]' % ("9" * 4000), "Boat.id"),
        ('[{"typeName": "Boat"}, {"name": 1}]', "Boat.name"),
        (r'[{"typeName": "Boat"}, {"name": "\ud800"}]', "Boat.name"),
        ('[{"typeName": "Boat"}, {"name": "x", "name": "y"}]', "name is used twice"),
    ],
)
def test_a_malformed_transmission_is_refused(text: str, fault: str) -> None:
    with pytest.raises(DecodeError, match=fault):
        JsonWire(KNOWN).feed(text.encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["id", "name", "lat", "colour", "x"]), inner)
        ),
        max_leaves=8,
    )
)
def test_any_input_is_an_object_or_refused(plain: Any) -> None:
    text = json.dumps([{"typeName": "Boat", "attributes": 2}, plain])
    try:
        ((_, payload),) = JsonWire(KNOWN).feed(text.encode())
    except DecodeError:
        return
    assert BOAT.decode(payload).encode() == payload


def test_size_has_a_bound_in_both_directions() -> None:
    payload = BOAT(id=1, name="x" * 100).encode()
    size = len(sent(JsonWire(KNOWN), header_of("Boat"), payload))
    wire = JsonWire(KNOWN, frame_bytes_max=size)
    message = sent(wire, header_of("Boat"), payload)
    assert wire.feed(message)
    narrow = JsonWire(KNOWN, frame_bytes_max=size - 1)
    with pytest.raises(EncodeError, match=f"{size} bytes as JSON, the limit is {size - 1}"):
        narrow.frame(header_of("Boat"), payload)
    with pytest.raises(DecodeError, match=f"a message of {size} bytes"):
        narrow.feed(message)


def test_a_message_may_be_as_large_as_a_frame() -> None:
    empty = len(sent(JsonWire(KNOWN), header_of("Boat"), BOAT(name="").encode()))
    payload = BOAT(name="\n" * ((FRAME_BYTES_MAX - empty) // 2)).encode()
    message = sent(JsonWire(KNOWN), header_of("Boat"), payload)
    assert FRAME_BYTES_MAX - 2 < len(message) <= FRAME_BYTES_MAX
    assert JsonWire(KNOWN).feed(message)[0][1] == payload
    with pytest.raises(DecodeError, match="a message of"):
        JsonWire(KNOWN).feed(message + b"  ")


def test_an_object_that_cannot_be_sent_is_refused() -> None:
    payload = BOAT(id=1, name="x" * 300).encode()
    with pytest.raises(EncodeError, match="Boat: 368 bytes as JSON, the limit is 300"):
        JsonWire(KNOWN, frame_bytes_max=300).frame(header_of("Boat"), payload)


def test_an_infinity_is_written_in_the_form_that_the_peer_reads() -> None:
    payload = BOAT(id=1, lat=float("-inf")).encode()
    wire = JsonWire(KNOWN)
    assert sent(wire, header_of("Boat"), payload).endswith(b'{ "id": 1, "lat": -inf } ]')
    wire.has_additions = True
    assert sent(wire, header_of("Boat"), payload).endswith(b'{ "id": 1, "lat": -1e999 } ]')
    assert through(wire, header_of("Boat"), payload)[1] == payload


def test_object_of_an_unknown_type_has_no_text() -> None:
    with pytest.raises(EncodeError, match="Nobody: there is no such type"):
        JsonWire(KNOWN).frame(header_of("Nobody"), b"\xa0")
