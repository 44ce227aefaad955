"""The two framings of the DOTS protocol, between bytes of a stream and headers with objects."""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr, u8

from skerry.codec.encoder import write_head
from skerry.codec.frame import (
    LARGE_FRAME_BYTES,
    FrameCutter,
    OldFrameCutter,
    Skipped,
    frame,
    large_frame,
    old_frame,
)
from skerry.codec.heads import read_argument, read_count, read_tag, skip
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan, refuse_bytes
from skerry.errors import DecodeError
from skerry.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES_MAX, STRUCT_ENTRY_COUNT_MAX
from skerry.protocol.access.header import Header, read_header, write_header
from skerry.schema.internal import internal_types

_SYSTEM_SPACE = b"\x01\x63SYS"
_SYSTEM_TYPES = frozenset(internal_types()) - {"DotsClient", "DotsDescriptorRequest"}
"""Internal types, except for two that old programs do not expect in the system space."""

_PLAN = StructPlan("DotsTransportHeader", object, [], None)
_HEADER = FieldPlan(3, "dotsHeader", "dotsHeader", False, ValuePlan(0, "DotsHeader"))
_SIZE = FieldPlan(4, "payloadSize", "payloadSize", False, ValuePlan(0, "uint32"))


@mypyc_attr(allow_interpreted_subclasses=True)
class Wire:
    """Version 2, and the interface of every framing.

    Transmissions before a fault are returned first; the next call, even without bytes, raises it.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.version: int = 2
        self.cutter: FrameCutter = FrameCutter(frame_bytes_max)
        """Cuts the stream of versions 1 and 2 into frames without decoding them."""
        self.unsendable: str = ""
        """Why an object could not be sent, if the connection has to be closed for that."""
        self._fault: DecodeError | None = None

    def feed(self, data: bytes) -> list[tuple[Header, bytes]]:
        """Process bytes of the stream; return the transmissions that are complete now."""
        if self._fault is not None:
            raise self._fault
        arrived: list[tuple[Header, bytes]] = []
        try:
            self._read(data, arrived)
        except DecodeError as error:
            self._fault = error
            if not arrived:
                raise
        return arrived

    def frame(self, header: Header, payload: bytes) -> bytes:
        """Return a transmission as bytes of the stream."""
        return frame_of(header, payload)

    def limit_frames(self, frame_bytes_max: int, *, skips_large: bool) -> None:
        """Change the frame limit. Larger frames are skipped and listed, or are a fault."""
        self.cutter.limit_frames(frame_bytes_max)
        self.cutter.skips_large = skips_large

    @property
    def held_bytes(self) -> int:
        """The size of the buffer of an incomplete frame; 0 if there is none."""
        return self.cutter.held_bytes

    def take_skipped(self) -> list[tuple[str, int]]:
        """Return the frames skipped since the last call: the type name, if known, and the size."""
        cutter = self.cutter
        if not cutter.skipped:
            return []
        skipped, cutter.skipped = cutter.skipped, []
        return [(self._name_of(item), item.size) for item in skipped]

    def _name_of(self, skipped: Skipped) -> str:
        try:
            header, _ = read_header(skipped.begin, 0)
        except DecodeError:
            return ""
        return header.type_name

    def read_frame(self) -> tuple[Header, bytes]:
        """Header and object of the frame that the cutter is at."""
        cutter = self.cutter
        if cutter.stop - cutter.start >= LARGE_FRAME_BYTES:
            return _read_large(cutter.buffer, int(cutter.start), int(cutter.stop))
        body = cutter.body()
        header, size = read_header(body, 0)
        return header, body[size:]

    def _read(self, data: bytes, arrived: list[tuple[Header, bytes]]) -> None:
        cutter = self.cutter
        cutter.load(data)
        while cutter.step():
            arrived.append(self.read_frame())


def frame_of(header: Header, payload: bytes) -> bytes:
    """Return a transmission in the framing of version 2."""
    if len(payload) >= LARGE_FRAME_BYTES:
        return large_frame(write_header(header), payload)
    return frame(write_header(header) + payload)


def _read_large(buffer: bytes, start: int, stop: int) -> tuple[Header, bytes]:
    """Return header and object of a large frame; only the object is copied."""
    try:
        header, size = read_header(buffer[start : start + FRAME_HEADER_BYTES_MAX], 0)
    except DecodeError:
        # The header may be unusually large.
        header, size = read_header(buffer[start:stop], 0)
    return header, buffer[start + size : stop]


class OldWire(Wire):
    """Version 1: an outer header, which contains the header and the size of the object."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max)
        self.version = 1
        self._old_cutter: OldFrameCutter = OldFrameCutter(_payload_size, frame_bytes_max)
        self.cutter = self._old_cutter

    def frame(self, header: Header, payload: bytes) -> bytes:
        """Return a transmission as bytes of the stream, with the fields old programs require."""
        name = header.type_name.encode("utf-8", "surrogateescape")
        in_system_space = header.type_name in _SYSTEM_TYPES
        writer = BytesWriter()
        writer.append(u8(0xA4 if in_system_space else 0xA3))
        if in_system_space:
            writer.write(_SYSTEM_SPACE)
        writer.append(u8(0x02))
        write_head(writer, 0x60, len(name))
        writer.write(name)
        writer.append(u8(0x03))
        writer.write(write_header(header))
        writer.append(u8(0x04))
        write_head(writer, 0x00, len(payload))
        return old_frame(writer.getvalue(), payload)

    def read_frame(self) -> tuple[Header, bytes]:
        """Header and object of the frame that the cutter is at."""
        outer = self._old_cutter.header()
        start, _ = _survey(outer)
        header, _ = read_header(outer, start)
        return header, self._old_cutter.payload()

    def _name_of(self, skipped: Skipped) -> str:
        try:
            start, _ = _survey(skipped.begin)
            header, _ = read_header(skipped.begin, start)
        except DecodeError:
            return ""
        return header.type_name


def _payload_size(outer: bytes) -> int:
    _, size = _survey(outer)
    return size


def _survey(outer: bytes) -> tuple[int, int]:
    """Return the offset of the inner header, and the size of the object."""
    end: i64 = len(outer)
    start: i64 = -1
    size: i64 = -1
    count, pos = read_count(_PLAN, None, outer, 0, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
    while count > 0:
        count -= 1
        tag, pos = read_tag(_PLAN, outer, pos, end)
        if tag == 3:
            if start >= 0:
                refuse_bytes(_PLAN, _HEADER, "tag 3 comes twice", pos)
            start = pos
        elif tag == 4:
            if size >= 0:
                refuse_bytes(_PLAN, _SIZE, "tag 4 comes twice", pos)
            size, _ = read_argument(_PLAN, _SIZE, outer, pos, end, 0x00)
            # A size of 64 bits would be read as negative, and lead the cutter backwards.
            if size < 0 or size > 0xFFFFFFFF:
                refuse_bytes(_PLAN, _SIZE, "a number that is too large", pos)
        pos = skip(_PLAN, outer, pos, end)
    if pos != end:
        refuse_bytes(_PLAN, None, "bytes behind the header", pos)
    if start < 0:
        refuse_bytes(_PLAN, _HEADER, "is missing", 0)
    if size < 0:
        refuse_bytes(_PLAN, _SIZE, "is missing", 0)
    return int(start), int(size)
