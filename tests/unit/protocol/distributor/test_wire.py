"""Messages as bytes: round trips in both dialects, and nothing is read past its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import DecodeError
from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEARTBEAT,
    NAK,
    POSITION,
    POSITION_REQUEST,
    REQUEST,
    UPDATE,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    Message,
    Nak,
    Position,
    PositionRequest,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.wire import (
    JAVA_WIRE,
    PYCAST_WIRE,
    DatagramWire,
    Reader,
    text_of,
    wire_of,
)

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
address = st.binary(min_size=4, max_size=4)
text = st.none() | st.text(st.characters(codec="utf-8"), max_size=20)


def header(kind: int) -> st.SearchStrategy[DatagramHeader]:
    return st.builds(
        DatagramHeader,
        kind=st.just(kind),
        flags=st.integers(0, 15),
        address=address,
        sender_id=u32,
        start=u32,
        application_id=u32,
    )


place = {"group": address, "port": u32, "sender_id": u32}
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        UpdateMessage, header=header(UPDATE), seq=u32, count=u32, body=st.binary(max_size=50)
    ),
    st.builds(
        HeartbeatMessage,
        header=header(HEARTBEAT) | header(GOODBYE),
        start_ms=st.none() | st.integers(0, 2**64 - 1),
        last_seq=u32,
        **place,
    ),
    st.builds(
        Configuration,
        header=header(CONFIGURATION),
        start=u32,
        heartbeat_interval_ms=u32,
        configuration_interval_ms=u32,
        host=address,
        application=text,
        **place,
    ),
    st.builds(
        RepairRequest,
        header=header(REQUEST),
        address=address,
        target_id=u32,
        target_start=u32,
        first_seq=u32,
        last_seq=u32,
        host=text,
        application=text,
    ),
    st.builds(Nak, header=header(NAK), seqs=st.lists(u32, max_size=9).map(tuple), **place),
    st.builds(
        PositionRequest,
        header=header(POSITION_REQUEST),
        target_id=u32,
        target_start=u32,
        seq=u32,
        span_us=u64,
    ),
    st.builds(
        Position, header=header(POSITION), seq=u32, span_us=u64, first_seq=u32, elapsed_us=u64
    ),
)


@given(messages, st.sampled_from([JAVA_WIRE, PYCAST_WIRE]))
def test_encoded_messages_decode_to_equal_ones(message: Message, wire: DatagramWire) -> None:
    data = wire.encode(message)
    assert wire.decode(data) == message
    assert wire.decode_header(data) == message.header


@given(messages, st.data())
def test_a_control_message_that_is_cut_or_longer_is_refused(
    message: Message, data: st.DataObject
) -> None:
    whole = JAVA_WIRE.encode(message)
    size = data.draw(st.integers(0, len(whole) - 1))
    # A shorter heartbeat may be one of the older form, and updates are not looked into here.
    if not isinstance(message, UpdateMessage) and not (
        isinstance(message, HeartbeatMessage) and size == 36
    ):
        with pytest.raises(DecodeError):
            JAVA_WIRE.decode(whole[:size])
        with pytest.raises(DecodeError):
            JAVA_WIRE.decode(whole + b"\0")


@given(st.binary(max_size=120), st.sampled_from([JAVA_WIRE, PYCAST_WIRE]))
def test_any_bytes_are_a_message_or_a_decode_error(data: bytes, wire: DatagramWire) -> None:
    for kind in range(11):
        whole = b"\x01\x00" + bytes([kind]) + data
        try:
            message = wire.decode(whole)
        except DecodeError:
            continue
        # Any byte but 0 says that a text is there, and 1 is written; all else comes back.
        assert wire.decode(wire.encode(message)) == message


def test_lengths_are_those_of_the_specification() -> None:
    head = DatagramHeader(kind=3, address=bytes(4), sender_id=1, start=2, application_id=3)
    beat = HeartbeatMessage(
        header=head, group=bytes(4), port=1, sender_id=1, start_ms=1, last_seq=1
    )
    assert len(JAVA_WIRE.encode(beat)) == 44
    assert len(JAVA_WIRE.encode(replace(beat, start_ms=None))) == 36
    nak = Nak(header=replace(head, kind=6), group=bytes(4), port=1, sender_id=1, seqs=(1, 2, 3))
    assert len(JAVA_WIRE.encode(nak)) == 36 + 4 * 3
    request = RepairRequest(
        header=replace(head, kind=5),
        address=bytes(4),
        target_id=1,
        target_start=1,
        first_seq=1,
        last_seq=1,
        host="host",
        application="name",
    )
    assert len(JAVA_WIRE.encode(request)) == 50 + 8
    asked = PositionRequest(
        header=replace(head, kind=8), target_id=1, target_start=2, seq=3, span_us=4
    )
    assert JAVA_WIRE.encode(asked)[20:].hex(" ", 4) == (
        "00000001 00000002 00000003 00000000 00000004"
    )
    position = Position(header=replace(head, kind=9), seq=3, span_us=4, first_seq=2, elapsed_us=5)
    assert JAVA_WIRE.encode(position)[20:].hex(" ", 4) == (
        "00000003 00000000 00000004 00000002 00000000 00000005"
    )


def test_an_older_heartbeat_is_recognised_by_its_length() -> None:
    head = DatagramHeader(kind=3, address=bytes(4), sender_id=1, start=2, application_id=3)
    old = JAVA_WIRE.header(head) + bytes(12) + (7).to_bytes(4, "big")
    message = JAVA_WIRE.decode(old)
    assert isinstance(message, HeartbeatMessage)
    assert (message.start_ms, message.last_seq) == (None, 7)


def test_another_major_version_or_kind_is_refused_and_another_minor_version_is_not() -> None:
    beat = JAVA_WIRE.header(
        DatagramHeader(kind=3, address=bytes(4), sender_id=1, start=2, application_id=3)
    ) + bytes(24)
    assert isinstance(JAVA_WIRE.decode(b"\x01\x07" + beat[2:]), HeartbeatMessage)
    with pytest.raises(DecodeError, match="version 2"):
        JAVA_WIRE.decode(b"\x02\x00" + beat[2:])
    with pytest.raises(DecodeError, match="kind 10 is unknown"):
        JAVA_WIRE.decode(beat[:2] + b"\x0a" + beat[3:])


def test_dialects_differ_where_they_do() -> None:
    assert JAVA_WIRE.address(b"\1\2\3\4") == b"\1\2\3\4"
    assert PYCAST_WIRE.address(b"\1\2\3\4") == b"\4\3\2\1"
    assert JAVA_WIRE.text("ab") == b"\x01\x00\x00\x00\x02ab"
    assert PYCAST_WIRE.text("ab") == b"\x01\x00\x02ab"
    assert JAVA_WIRE.subject_head(b"/a") == b"\x01\x00\x00\x00\x02/a\x01"
    assert PYCAST_WIRE.subject_head(b"/a") == b"\x01\x00\x02/a\x01"
    assert wire_of(Dialect.JAVA) is JAVA_WIRE
    assert wire_of(Dialect.PYCAST) is PYCAST_WIRE


def test_text_is_utf8_or_else_one_byte_a_letter() -> None:
    assert text_of("/å".encode()) == "/å"
    assert text_of(b"/\xe5") == "/å"


def test_a_reader_does_not_read_beyond_the_end() -> None:
    reader = Reader(b"abc", 0)
    assert reader.take(2) == b"ab"
    assert reader.left() == 1
    with pytest.raises(DecodeError, match="2 bytes are announced and 1 are left"):
        reader.take(2)
    with pytest.raises(DecodeError, match="left over"):
        reader.finish()
    assert reader.number(1) == ord("c")
    reader.finish()
    assert Reader(b"\0", 0).text() is None
    assert Reader(b"\x07\0\0\0\0", 0).text() == ""
