"""What a space publishes, as frames that wait for the stream, up to a bound.

An object is encoded where it is published, so that its publisher hears at once of what is wrong
with it. The frames wait here until there is a stream that takes them: for the rest of a loop's
turn, or until a lost connection is back. This module is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import time
from typing import Any, Final, overload

from librt.strings import BytesWriter, write_f64_be, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr, u8

from skerry.codec.encoder import head, present_of, write_head, write_values
from skerry.codec.plans import StructPlan, refuse_size
from skerry.codec.tables import TableCodec
from skerry.errors import EncodeError, LocalProtocolError, WouldBlock
from skerry.limits import FRAME_BYTES_MAX, PAYLOAD_BYTES_MAX, SEND_SUBJECT_COUNT_MAX
from skerry.objects.base import Struct
from skerry.protocol.access.header import Header
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire

__all__ = ["Publishing", "SendBuffer", "SendPlan", "raw_payload"]


_BYTES_HEAD: Final = b"\xa5\x01\x6bSkerryBytes\x02\xfb"
"""A header of bytes of a bare subject up to its time."""
_BYTES_REST: Final = b"\x03\x02\x04\xf4\x14"
"""And behind it, up to the subject."""


class SendPlan:
    """How objects of a type are published."""

    def __init__(self, codec: Any, is_cached: bool) -> None:
        plan: StructPlan = codec.plan
        name = plan.name.encode("utf-8", "surrogateescape")
        self.plan: StructPlan = plan
        self.encode: Any = codec.encode
        self.encode_only: Any = codec.encode_only
        self.is_cached: bool = is_cached
        self.key_mask: i64 = plan.key_mask
        self.name_part: bytes = b"\x01" + head(0x60, len(name)) + name
        """The name as it stands in a header."""
        self._is_walked: bool = isinstance(codec, TableCodec)
        """Whether objects are encoded by walking their plan, which can write them in place."""
        self._head: bytes = b"\xa4" + self.name_part + b"\x02\xfb"
        """A header up to its time."""
        self._rest: bytes = b""
        """And behind it, for objects with these fields:"""
        self._rest_mask: i64 = -1

    def attributes(self, obj: object) -> i64:
        """Property set of the fields that are set."""
        mask: i64 = 0
        index: i64 = 0
        fields = self.plan.fields
        values: tuple[object, ...] = self.plan.values_of(obj)
        for value in values:
            if value is not None:
                mask |= fields[index].bit
            index += 1  # noqa: SIM113  slower with enumerate when compiled
        return mask

    def check_key(self, present: i64) -> None:
        """An object without its key is nobody's; LocalProtocolError names what is missing."""
        missing = self.key_mask & ~present
        if missing != 0:
            names = ", ".join([f.name for f in self.plan.keys if missing & f.bit])
            raise LocalProtocolError(
                f"{self.plan.name} cannot be published without its key {names}"
            )

    def write(self, writer: BytesWriter, obj: object, now_s: float) -> None:
        """Write the frame of an object, of version 2; if that fails, nothing is written."""
        plan = self.plan
        values: tuple[object, ...] = plan.values_of(obj)
        present = present_of(plan, values)
        self.check_key(present)
        if present != self._rest_mask:
            self._rest = b"\x03" + head(0x00, present) + b"\x04\xf4"
            self._rest_mask = present
        start: i64 = len(writer)
        writer.append(u8(0x1A))
        write_i32_be(writer, 0)
        writer.write(self._head)
        write_f64_be(writer, now_s)
        writer.write(self._rest)
        begin: i64 = len(writer)
        try:
            if self._is_walked:
                write_values(writer, plan, values, -1)
            else:
                writer.write(self.encode(obj))
            if len(writer) - begin > PAYLOAD_BYTES_MAX:
                refuse_size(plan, int(len(writer) - begin))
        except BaseException:
            writer.truncate(start)
            raise
        _set_size(writer, start)

    def update(
        self, obj: object, selected: i64, subject: str, now_s: float, wire: Wire | None
    ) -> bytes:
        """The frame of an object, or of what is selected of it; all that is set by -1.

        Without a wire it is a frame of version 2, made the short way.
        """
        present = self.attributes(obj)
        self.check_key(present)
        if selected < 0:
            whole: bytes = self.encode(obj)
            return self._frame(whole, present, False, subject, now_s, wire)
        payload: bytes = self.encode_only(obj, int(selected))
        return self._frame(payload, selected, False, subject, now_s, wire)

    def removal(self, obj: object, subject: str, now_s: float, wire: Wire | None) -> bytes:
        """The frame that removes the object with this key."""
        self.check_key(self.attributes(obj))
        payload: bytes = self.encode_only(obj, int(self.key_mask))
        return self._frame(payload, self.key_mask, True, subject, now_s, wire)

    def raw(self, payload: bytes, subject: str, now_s: float, wire: Wire | None) -> bytes:
        """The frame of an object that is encoded already and has one field, with tag 1."""
        return self._frame(payload, 2, False, subject, now_s, wire)

    def _frame(
        self,
        payload: bytes,
        attributes: i64,
        is_remove: bool,
        subject: str,
        now_s: float,
        wire: Wire | None,
    ) -> bytes:
        if wire is not None:
            header = Header(self.plan.name)
            header.sent_time = now_s
            header.attributes = attributes
            header.remove_obj = 1 if is_remove else 0
            header.subject = subject
            if wire.version == 1:
                # What old programs look for.
                header.sender = 1
            return wire.frame(header, payload)
        return self._new_frame(payload, attributes, is_remove, subject, now_s)

    def _new_frame(
        self, payload: bytes, attributes: i64, is_remove: bool, subject: str, now_s: float
    ) -> bytes:
        """Of version 2, without a header object: a test compares it with that of the wire."""
        writer = BytesWriter()
        writer.append(u8(0xA5 if subject else 0xA4))
        writer.write(self.name_part)
        writer.append(u8(0x02))
        writer.append(u8(0xFB))
        write_f64_be(writer, now_s)
        writer.append(u8(0x03))
        write_head(writer, 0x00, attributes)
        writer.append(u8(0x04))
        writer.append(u8(0xF5 if is_remove else 0xF4))
        if subject:
            text = subject.encode("utf-8", "surrogateescape")
            # Its tag takes one byte, being less than 24.
            writer.append(u8(0x14))
            write_head(writer, 0x60, len(text))
            writer.write(text)
        size: i64 = len(writer) + len(payload)
        if size > FRAME_BYTES_MAX:
            detail = f"a frame of {int(size)} bytes, the limit is {FRAME_BYTES_MAX}"
            raise EncodeError(type_name=self.plan.name, field="", detail=detail)
        prefix = BytesWriter()
        prefix.append(u8(0x1A))
        write_i32_be(prefix, i32(size))
        return prefix.getvalue() + writer.getvalue() + payload


def _set_size(writer: BytesWriter, start: i64) -> None:
    """Say in front of a frame how long it is."""
    size: i64 = len(writer) - start - 5
    writer[start + 1] = u8((size >> 24) & 0xFF)
    writer[start + 2] = u8((size >> 16) & 0xFF)
    writer[start + 3] = u8((size >> 8) & 0xFF)
    writer[start + 4] = u8(size & 0xFF)


def raw_payload(data: bytes) -> bytes:
    """The object of type SkerryBytes that carries the bytes."""
    writer = BytesWriter()
    writer.append(u8(0xA1))
    writer.append(u8(0x01))
    write_head(writer, 0x40, len(data))
    writer.write(data)
    return writer.getvalue()


class SendBuffer:
    """Frames that wait. With a lock, they may come from any thread."""

    def __init__(self, bytes_max: int, lock: Any) -> None:
        self._bytes_max: i64 = bytes_max
        self._lock: Any = lock
        self._parts: list[Any] = []
        """Bytes of frames, and types that are to be described before what follows."""
        self._writer: BytesWriter = BytesWriter()
        """The frames behind all of that."""
        self._types: dict[str, Any] = {}
        self._subjects: dict[str, bytes] = {}
        """What stands between the time and the bytes of a bare subject, for subjects in use."""
        self.plans: dict[Any, SendPlan] = {}
        """Classes whose objects can be published here at once."""
        self.is_short: bool = False
        """Whether frames of version 2 are what is wanted, so that the short way may be taken."""
        self._waiting_bytes: i64 = 0
        self._is_awaited: bool = False
        self.added_count: int = 0
        """Publishes so far."""
        self.moved_count: int = 0
        """Those that went out."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait, here and in what was taken but not written yet."""
        return int(self._waiting_bytes)

    def publish(self, obj: object, now_s: float) -> int:
        """One more object: 1 if whoever writes must be told, 0 if not, -1 if this is not the way.

        Then nothing was done: it is an object of a class that is new here, or no object at all.
        """
        plan = self.plans.get(type(obj))
        if plan is None or not self.is_short:
            return -1
        lock = self._lock
        if lock is None:
            return self._publish(plan, obj, now_s)
        with lock:
            return self._publish(plan, obj, now_s)

    def publish_bytes(self, subject: object, data: object, now_s: float) -> int:
        """The same for bytes under a subject that came before."""
        if not isinstance(subject, str):
            return -1
        rest = self._subjects.get(subject)
        if rest is None or not self.is_short or not isinstance(data, bytes):
            return -1
        lock = self._lock
        if lock is None:
            return self._publish_bytes(rest, data, now_s)
        with lock:
            return self._publish_bytes(rest, data, now_s)

    def _publish(self, plan: SendPlan, obj: object, now_s: float) -> int:
        writer = self._writer
        start: i64 = len(writer)
        plan.write(writer, obj, now_s)
        return self._wrote(start)

    def _publish_bytes(self, rest: bytes, data: bytes, now_s: float) -> int:
        writer = self._writer
        start: i64 = len(writer)
        if len(data) > PAYLOAD_BYTES_MAX - 16:
            return -1
        writer.append(u8(0x1A))
        write_i32_be(writer, 0)
        writer.write(_BYTES_HEAD)
        write_f64_be(writer, now_s)
        writer.write(rest)
        write_head(writer, 0x40, len(data))
        writer.write(data)
        _set_size(writer, start)
        return self._wrote(start)

    def _wrote(self, start: i64) -> int:
        """A frame was written behind the others; it goes again if there is no room for it."""
        size: i64 = len(self._writer) - start
        try:
            self._check_room(size)
        except WouldBlock:
            self._writer.truncate(start)
            raise
        self._waiting_bytes += size
        return 1 if self._is_first() else 0

    def add(self, frame: bytes, type_: Any, name: str) -> bool:
        """One more frame; whether whoever writes must be told. WouldBlock when there is no room."""
        lock = self._lock
        if lock is None:
            return self._add(frame, type_, name)
        with lock:
            return self._add(frame, type_, name)

    def note_subject(self, subject: str) -> None:
        """Bytes were published under a subject, and may be again."""
        if len(self._subjects) >= SEND_SUBJECT_COUNT_MAX:
            self._subjects.clear()
        text = subject.encode("utf-8", "surrogateescape")
        self._subjects[subject] = _BYTES_REST + head(0x60, len(text)) + text + b"\xa1\x01"

    def forget_subjects(self) -> None:
        """Ask again which subjects may be published under."""
        self._subjects.clear()

    def _add(self, frame: bytes, type_: Any, name: str) -> bool:
        self._check_room(len(frame))
        if name not in self._types:
            self._types[name] = type_
            self._end_part()
            self._parts.append(type_)
        self._writer.write(frame)
        self._waiting_bytes += len(frame)
        return self._is_first()

    def _check_room(self, size: i64) -> None:
        # A single frame is let through however small the bound: it could never go out otherwise.
        if self._waiting_bytes + size > self._bytes_max and self._waiting_bytes > 0:
            error = WouldBlock(
                f"{int(self._waiting_bytes)} bytes wait to be sent,"
                f" the limit is {int(self._bytes_max)}"
            )
            error.hint = "wait with `drain`, publish less, or raise `send_bytes_max`"
            raise error

    def _is_first(self) -> bool:
        self.added_count += 1
        is_first = not self._is_awaited
        self._is_awaited = True
        return is_first

    def _end_part(self) -> None:
        if len(self._writer):
            self._parts.append(self._writer.getvalue())
            self._writer.truncate(0)

    def move(self, outgoing: Outgoing, describe: Any) -> int:
        """Let what waits go out, in order; gives its bytes.

        `describe` is called with each type before its first object.
        """
        lock = self._lock
        if lock is None:
            parts = self._take()
        else:
            with lock:
                parts = self._take()
        size: i64 = 0
        for item in parts:
            if isinstance(item, bytes):
                outgoing.add(item)
                size += len(item)
            else:
                describe(item)
        return int(size)

    def _take(self) -> list[Any]:
        self._is_awaited = False
        self.moved_count = self.added_count
        self._end_part()
        parts = self._parts
        self._parts = []
        return parts

    def types(self) -> list[Any]:
        """The types that were published, or will be, in order."""
        return list(self._types.values())

    def will_publish(self, type_: Any, name: str) -> None:
        """A type that is to be described as soon as there is a connection."""
        self._types.setdefault(name, type_)

    def written(self, size: int) -> None:
        """So many bytes of what was taken are out."""
        lock = self._lock
        if lock is None:
            self._waiting_bytes -= size
        else:
            with lock:
                self._waiting_bytes -= size

    def note_awaited(self) -> None:
        """Whoever writes will look here anyway, and need not be told."""
        self._is_awaited = True


@mypyc_attr(allow_interpreted_subclasses=True)
class Publishing:
    """What the spaces have alike: the way of an object from its publisher into the buffer.

    Here and not in the spaces, so that the shortest way through is compiled as a whole.
    """

    def __init__(self, buffer: SendBuffer, first: Any, wake: Any) -> None:
        self._buffer: SendBuffer = buffer
        self._first: Any = first
        """Publishes what is published for the first time, or in an unusual way."""
        self._wake: Any = wake
        """Tells whoever writes."""

    @overload
    def publish(
        self, what: Struct, *, only: Iterable[str] | None = None, subject: str = ""
    ) -> None: ...
    @overload
    def publish(self, what: str, data: bytes, /) -> None: ...
    def publish(self, what: Any, data: Any = None, *, only: Any = None, subject: Any = "") -> None:
        """Create an object, or update those of its fields that are set or named in `only`.

        Or send bytes under a subject. WouldBlock when too much waits to be sent.
        """
        is_due: int = -1
        if data is not None:
            is_due = self._buffer.publish_bytes(what, data, time())
        elif only is None and not subject:
            is_due = self._buffer.publish(what, time())
        if is_due < 0:
            is_due = self._first(what, data, only, subject)
        if is_due:
            self._wake()
