"""Published frames that wait for the stream, up to a limit.

An object is encoded when it is published, so that errors are raised to its publisher. The frames
wait here until the driver writes them: to the end of an iteration of the loop, or until a lost
connection is restored. This module is compiled.
"""

from __future__ import annotations

from typing import Any, Final

from librt.strings import BytesWriter, write_f64_be, write_i32_be
from mypy_extensions import i32, i64, u8

from skerry.codec.encoder import head, write_head
from skerry.codec.hot_loops import StructLayout, Template, WaitingFrames
from skerry.codec.plans import StructPlan
from skerry.errors import EncodeError, LocalProtocolError, WouldBlock
from skerry.limits import FRAME_BYTES_MAX
from skerry.protocol.access.header import Header
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire

SEND_SUBJECT_COUNT_MAX: Final = 10_000
"""Subjects for which a space remembers that bytes may be published under them."""

_BYTES_HEAD: Final = b"\xa5\x01\x6bSkerryBytes\x02\xfb"
"""The header of bytes that are published under a subject, up to the time."""
_BYTES_REST: Final = b"\x03\x02\x04\xf4"
"""The rest of that header, up to the subject."""
_SET: Final = b"\x03"
"""Precedes the property set."""
_NOT_REMOVED: Final = b"\x04\xf4"
"""Follows the property set of an object that is not a removal."""


class SendPlan:
    def __init__(self, codec: Any, is_cached: bool) -> None:
        plan: StructPlan = codec.plan
        name = plan.name.encode("utf-8", "surrogateescape")
        self.plan: StructPlan = plan
        self.encode: Any = codec.encode
        self.encode_only: Any = codec.encode_only
        self.is_cached: bool = is_cached
        self.key_mask: i64 = plan.key_mask
        self.name_part: bytes = b"\x01" + head(0x60, len(name)) + name
        """The name as it is encoded in a header."""
        self._layout: StructLayout = codec.layout
        self.template: Template = self.template_under("")
        """The start of a version 2 frame with a default subject, which most objects have."""

    def template_under(self, subject: str) -> Template:
        """The start of a frame with an object under a subject; empty for the default subject."""
        return Template(
            self._layout,
            (b"\xa5" if subject else b"\xa4") + self.name_part + b"\x02\xfb",
            _SET,
            _NOT_REMOVED + (_subject_part(subject) if subject else b""),
        )

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
        """LocalProtocolError names the key fields that are not set."""
        missing = self.key_mask & ~present
        if missing != 0:
            names = ", ".join([f.name for f in self.plan.keys if missing & f.bit])
            raise LocalProtocolError(
                f"{self.plan.name} cannot be published without its key {names}"
            )

    def update(
        self, obj: object, selected: i64, subject: str, now_s: float, wire: Wire | None
    ) -> bytes:
        """The frame of an object with the fields in `selected`; -1 for all fields that are set.

        Without a wire it is a version 2 frame, encoded without a header object.
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
                # Old programs expect it.
                header.sender = 1
            return wire.frame(header, payload)
        return self._new_frame(payload, attributes, is_remove, subject, now_s)

    def _new_frame(
        self, payload: bytes, attributes: i64, is_remove: bool, subject: str, now_s: float
    ) -> bytes:
        """A version 2 frame; a test compares it with the one that the wire makes."""
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
            writer.write(_subject_part(subject))
        size: i64 = len(writer) + len(payload)
        if size > FRAME_BYTES_MAX:
            detail = f"a frame of {int(size)} bytes, the limit is {FRAME_BYTES_MAX}"
            raise EncodeError(type_name=self.plan.name, field="", detail=detail)
        prefix = BytesWriter()
        prefix.append(u8(0x1A))
        write_i32_be(prefix, i32(size))
        return prefix.getvalue() + writer.getvalue() + payload


def _subject_part(subject: str) -> bytes:
    text = subject.encode("utf-8", "surrogateescape")
    # Its tag is less than 24, so it is encoded in one byte.
    return b"\x14" + head(0x60, len(text)) + text


def raw_payload(data: bytes) -> bytes:
    """The encoded SkerryBytes object that contains the bytes."""
    writer = BytesWriter()
    writer.append(u8(0xA1))
    writer.append(u8(0x01))
    write_head(writer, 0x40, len(data))
    writer.write(data)
    return writer.getvalue()


class SendBuffer:
    """Frames that wait to be sent. With a lock, any thread may add frames."""

    def __init__(self, bytes_max: int, lock: Any) -> None:
        self.waiting: WaitingFrames = WaitingFrames(bytes_max, lock, _BYTES_HEAD)
        """The queued frames, and the classes and subjects that need no further checks."""
        self._lock: Any = lock
        self._parts: list[Any] = []
        """Bytes of frames, and types that must be described before the frames after them."""
        self._types: dict[str, Any] = {}
        self.moved_count: int = 0
        """Publishes that were taken out to be sent."""

    def renew_lock(self, lock: Any) -> None:
        """Replace the lock after a fork: its holder may be a thread of the other process."""
        self._lock = lock
        self.waiting.lock = lock

    def add(self, frame: bytes, type_: Any, name: str) -> bool:
        """Add a frame; raises WouldBlock if there is no room. True if the driver must be woken."""
        lock = self._lock
        if lock is None:
            return self._add(frame, type_, name)
        with lock:
            return self._add(frame, type_, name)

    def note_subject(self, subject: str) -> None:
        """Cache the header for bytes under a subject, since more may be published there."""
        subjects = self.waiting.subjects
        if len(subjects) >= SEND_SUBJECT_COUNT_MAX:
            self.waiting.forget_subjects()
        subjects[subject] = _BYTES_REST + _subject_part(subject) + b"\xa1\x01"

    def note_object_under(self, cls: Any, subject: str, plan: SendPlan) -> None:
        """Cache the template of a class and subject, since more objects may be published there."""
        templates = self.waiting.templates
        if (cls, subject) not in templates:
            if len(templates) >= SEND_SUBJECT_COUNT_MAX:
                self.waiting.forget_subjects()
            templates[cls, subject] = plan.template_under(subject)

    def _add(self, frame: bytes, type_: Any, name: str) -> bool:
        self._check_room(len(frame))
        if name not in self._types:
            self._types[name] = type_
            self._end_part()
            self._parts.append(type_)
        is_due: bool = self.waiting.add(frame)
        return is_due

    def _check_room(self, size: int) -> None:
        waiting = self.waiting
        # A single frame is accepted whatever its size: it could never be sent otherwise.
        if waiting.size + size > waiting.bytes_max and waiting.size > 0:
            error = WouldBlock(
                f"{waiting.size} bytes wait to be sent, the limit is {waiting.bytes_max}"
            )
            error.hint = "wait with `drain`, publish less, or raise `send_bytes_max`"
            raise error

    def _end_part(self) -> None:
        if len(self.waiting.frames):
            self._parts.append(self.waiting.take())

    def move(self, outgoing: Outgoing, describe: Any) -> int:
        """Move the frames into `outgoing`, in order. Returns the number of bytes.

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
                outgoing.add_run(item, 1)
                size += len(item)
            else:
                describe(item)
        return int(size)

    def _take(self) -> list[Any]:
        self.waiting.is_awaited = False
        self.moved_count = self.waiting.added_count
        self._end_part()
        parts = self._parts
        self._parts = []
        return parts

    def types(self) -> list[Any]:
        """The types that were or will be published, in order."""
        return list(self._types.values())

    def will_publish(self, type_: Any, name: str) -> None:
        """Describe a type while connecting."""
        self._types.setdefault(name, type_)

    def written(self, size: int) -> None:
        """So many of the bytes that were taken out are written."""
        lock = self._lock
        if lock is None:
            self.waiting.size -= size
        else:
            with lock:
                self.waiting.size -= size

    def has_waiting(self) -> bool:
        """Whether frames wait. If not, the next publisher has to wake the driver."""
        lock = self._lock
        if lock is None:
            return self._has_waiting()
        with lock:
            return self._has_waiting()

    def _has_waiting(self) -> bool:
        if self._parts or len(self.waiting.frames):
            return True
        self.waiting.is_awaited = False
        return False

    def note_awaited(self) -> None:
        """The driver will take frames soon: publishers need not wake it."""
        self.waiting.is_awaited = True
