"""Encoding of messages, in the dialect of the Java program and in that of pycast.

All numbers are big-endian. The two dialects have the same messages with other widths: pycast
reverses the bytes of addresses, gives texts a length of two bytes instead of four, and counts the
start of a sender in seconds. Every length is checked before it is used, because anyone can send to
a group.
"""

from __future__ import annotations

import struct
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEADER_BYTES,
    HEARTBEAT,
    NAK,
    POSITION,
    POSITION_REQUEST,
    REQUEST,
    RETRANSMISSION,
    UPDATE,
    UPDATE_HEADER_BYTES,
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

MAJOR_VERSION: Final = 1
_VERSION: Final = b"\x01\x00"
_U32: Final = 0xFFFFFFFF

_HEADER: Final = struct.Struct(">2sBB4sIII")
_PLACE: Final = struct.Struct(">4sII")
_PAIR: Final = struct.Struct(">II")
_POSITION_REQUEST: Final = struct.Struct(">IIIQ")
_POSITION: Final = struct.Struct(">IQIQ")


class DatagramWire:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._is_java = dialect is Dialect.JAVA
        self.text_length_bytes: int = 4 if self._is_java else 2
        """Bytes of the length of a text; the length of data has 4 in both dialects."""

    # -- encoding

    def header(self, header: DatagramHeader) -> bytes:
        """Return the first 20 bytes of a datagram."""
        return _HEADER.pack(
            _VERSION,
            header.kind,
            header.flags,
            self.address(header.address),
            header.sender_id & _U32,
            header.start & _U32,
            header.application_id & _U32,
        )

    def encode(self, message: Message) -> bytes:
        """Return the whole datagram."""
        head = self.header(message.header)
        if isinstance(message, UpdateMessage):
            return head + _PAIR.pack(message.seq & _U32, message.count) + message.body
        if isinstance(message, HeartbeatMessage):
            return head + self._heartbeat(message)
        if isinstance(message, Configuration):
            return head + self._configuration(message)
        if isinstance(message, RepairRequest):
            return head + self._request(message)
        if isinstance(message, PositionRequest):
            target = message.target_id & _U32, message.target_start & _U32
            return head + _POSITION_REQUEST.pack(*target, message.seq & _U32, message.span_us)
        if isinstance(message, Position):
            first_seq = message.first_seq & _U32
            return head + _POSITION.pack(
                message.seq & _U32, message.span_us, first_seq, message.elapsed_us
            )
        place = self._place(message.group, message.port, message.sender_id)
        numbers = struct.pack(f">{len(message.seqs)}I", *[seq & _U32 for seq in message.seqs])
        return head + place + len(message.seqs).to_bytes(4, "big") + numbers

    def address(self, address: bytes) -> bytes:
        """Convert an address to the byte order of the dialect, or back."""
        return address if self._is_java else address[::-1]

    def text(self, text: str | None) -> bytes:
        """Return a text with its length, or the single byte for None."""
        if text is None:
            return b"\x00"
        data = text.encode()
        return b"\x01" + len(data).to_bytes(self.text_length_bytes, "big") + data

    def subject_head(self, subject: bytes) -> bytes:
        """Return what precedes the length of the data in an update."""
        length = len(subject).to_bytes(self.text_length_bytes, "big")
        return b"\x01" + length + subject + b"\x01"

    # -- decoding

    def decode_header(self, data: bytes) -> DatagramHeader:
        """Decode the header, whatever follows it. DecodeError if it is incomplete."""
        if len(data) < HEADER_BYTES:
            raise DecodeError(type_name="datagram", detail=f"{len(data)} bytes have no header")
        _, kind, flags, address, sender_id, start, application_id = _HEADER.unpack_from(data)
        return DatagramHeader(
            kind=kind,
            flags=flags,
            address=self.address(address),
            sender_id=sender_id,
            start=start,
            application_id=application_id,
        )

    def decode(self, data: bytes) -> Message:
        """Decode a datagram. DecodeError if it is not exactly one message."""
        header = self.decode_header(data)
        if data[0] != MAJOR_VERSION:
            raise DecodeError(type_name="datagram", detail=f"version {data[0]} is not supported")
        kind = header.kind
        if kind in (UPDATE, RETRANSMISSION):
            return self._read_update(header, data)
        reader = Reader(data, HEADER_BYTES, self.text_length_bytes)
        if kind in (HEARTBEAT, GOODBYE):
            message: Message = self._read_heartbeat(header, reader)
        elif kind == CONFIGURATION:
            message = self._read_configuration(header, reader)
        elif kind == REQUEST:
            message = self._read_request(header, reader)
        elif kind == NAK:
            message = self._read_nak(header, reader)
        elif kind == POSITION_REQUEST:
            message = PositionRequest(
                header=header,
                target_id=reader.number(4),
                target_start=reader.number(4),
                seq=reader.number(4),
                span_us=reader.number(8),
            )
        elif kind == POSITION:
            message = Position(
                header=header,
                seq=reader.number(4),
                span_us=reader.number(8),
                first_seq=reader.number(4),
                elapsed_us=reader.number(8),
            )
        else:
            raise DecodeError(type_name="datagram", detail=f"kind {kind} is unknown")
        reader.finish()
        return message

    # -- inside

    def _place(self, group: bytes, port: int, sender_id: int) -> bytes:
        return _PLACE.pack(self.address(group), port & _U32, sender_id & _U32)

    def _heartbeat(self, message: HeartbeatMessage) -> bytes:
        start = b"" if message.start_ms is None else message.start_ms.to_bytes(8, "big")
        place = self._place(message.group, message.port, message.sender_id)
        return place + start + (message.last_seq & _U32).to_bytes(4, "big")

    def _configuration(self, message: Configuration) -> bytes:
        place = self._place(message.group, message.port, message.sender_id)
        start = message.start.to_bytes(8 if self._is_java else 4, "big")
        intervals = _PAIR.pack(message.heartbeat_interval_ms, message.configuration_interval_ms)
        again = b"" if self._is_java else message.header.application_id.to_bytes(4, "big")
        name = self.text(message.application)
        return place + start + intervals + self.address(message.host) + again + name

    def _request(self, message: RepairRequest) -> bytes:
        start_bytes = 4 if self._is_java else 8
        return b"".join(
            (
                self.address(message.address),
                (message.target_id & _U32).to_bytes(4, "big"),
                (message.target_start & _U32).to_bytes(start_bytes, "big"),
                _PAIR.pack(message.first_seq & _U32, message.last_seq & _U32),
                self.text(message.host),
                self.text(message.application),
            )
        )

    def _read_update(self, header: DatagramHeader, data: bytes) -> UpdateMessage:
        if len(data) < UPDATE_HEADER_BYTES:
            raise DecodeError(type_name="update", detail="the bytes end before the count")
        seq, count = _PAIR.unpack_from(data, HEADER_BYTES)
        return UpdateMessage(header=header, seq=seq, count=count, body=data[UPDATE_HEADER_BYTES:])

    def _read_heartbeat(self, header: DatagramHeader, reader: Reader) -> HeartbeatMessage:
        return HeartbeatMessage(
            header=header,
            group=self.address(reader.take(4)),
            port=reader.number(4),
            sender_id=reader.number(4),
            # Older programs omit the start, which only shows in the length.
            start_ms=reader.number(8) if reader.left() > 4 else None,
            last_seq=reader.number(4),
        )

    def _read_configuration(self, header: DatagramHeader, reader: Reader) -> Configuration:
        group, port, sender_id = self.address(reader.take(4)), reader.number(4), reader.number(4)
        start = reader.number(8 if self._is_java else 4)
        heartbeat_ms, configuration_ms = reader.number(4), reader.number(4)
        host = self.address(reader.take(4))
        if not self._is_java:
            reader.take(4)
        return Configuration(
            header=header,
            group=group,
            port=port,
            sender_id=sender_id,
            start=start,
            heartbeat_interval_ms=heartbeat_ms,
            configuration_interval_ms=configuration_ms,
            host=host,
            application=reader.text(),
        )

    def _read_request(self, header: DatagramHeader, reader: Reader) -> RepairRequest:
        return RepairRequest(
            header=header,
            address=self.address(reader.take(4)),
            target_id=reader.number(4),
            target_start=reader.number(4 if self._is_java else 8) & _U32,
            first_seq=reader.number(4),
            last_seq=reader.number(4),
            host=reader.text(),
            application=reader.text(),
        )

    def _read_nak(self, header: DatagramHeader, reader: Reader) -> Nak:
        group, port, sender_id = self.address(reader.take(4)), reader.number(4), reader.number(4)
        count = reader.number(4)
        numbers = reader.take(4 * count)
        return Nak(
            header=header,
            group=group,
            port=port,
            sender_id=sender_id,
            seqs=struct.unpack(f">{count}I", numbers),
        )


class Reader:
    """Reads a message field by field; DecodeError if the message is too short."""

    def __init__(self, data: bytes, pos: int, text_length_bytes: int = 4) -> None:
        self._data = data
        self._pos = pos
        self._text_length_bytes = text_length_bytes

    def left(self) -> int:
        """Return the number of bytes that were not read."""
        return len(self._data) - self._pos

    def take(self, size: int) -> bytes:
        if size > self.left():
            detail = f"{size} bytes are announced and {self.left()} are left"
            raise DecodeError(type_name="message", detail=detail, offset=self._pos)
        self._pos += size
        return self._data[self._pos - size : self._pos]

    def number(self, size: int) -> int:
        """Return the next number, which is unsigned."""
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str | None:
        """Return the next text; None if it is absent."""
        if not self.number(1):
            return None
        return text_of(self.take(self.number(self._text_length_bytes)))

    def finish(self) -> None:
        """Check that the whole message was read."""
        if self.left():
            detail = f"{self.left()} bytes are left over"
            raise DecodeError(type_name="message", detail=detail, offset=self._pos)


def text_of(data: bytes) -> str:
    """Decode a text: UTF-8, or else Latin-1, which older Java programs send."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


JAVA_WIRE: Final = DatagramWire(Dialect.JAVA)
PYCAST_WIRE: Final = DatagramWire(Dialect.PYCAST)


def wire_of(dialect: Dialect) -> DatagramWire:
    return JAVA_WIRE if dialect is Dialect.JAVA else PYCAST_WIRE
