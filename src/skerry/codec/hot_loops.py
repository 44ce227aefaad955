"""The loops that run for every message: encoding and decoding of objects, frame after frame.

This is the Python twin of `hot_loops.pyx`. Where a C compiler is available, Cython compiles that
file, and it replaces this module under the same name. No other module knows which of the two is in
use; tests run both and compare. Cython and not mypyc, because a class that mypyc compiles can
neither reach the slots of a Python class nor reuse an event object that the callback did not keep,
and these two took most of the time of these loops.

Neighbouring frames often have the same header except for its times. One call handles a whole run of
them: it delivers (`FrameDelivery`) or forwards (`AlikeFrames`) frames up to the first that differs,
and leaves that one to the caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from skerry.codec import decoder, encoder, pieces
from skerry.codec.plans import StructPlan
from skerry.errors import CodecError, DecodeError, EncodeError
from skerry.limits import (
    HEADER_MEMO_BYTES_MAX,
    HEADER_MEMO_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    STRUCT_COUNT_MAX,
)

__all__ = [
    "AlikeFrames",
    "DeliveredHeader",
    "ForwardedHeader",
    "FrameDelivery",
    "FrameRelay",
    "Frames",
    "KnownHeader",
    "KnownHeaders",
    "ObjectState",
    "PublishPath",
    "ReceivedUpdate",
    "RouteVersion",
    "StructLayout",
    "Template",
    "WaitingFrames",
]

_PREFIX_BYTES: Final = 5
_DOUBLE: Final = struct.Struct(">d")


class StructLayout:
    """How objects of a class travel."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self.cls = plan.cls
        self.key_mask = int(plan.key_mask)

    def decode(self, data: bytes) -> Any:
        """The object that the bytes are; DecodeError when they are none."""
        if len(data) > STRUCT_COUNT_MAX:
            # With fewer bytes there cannot be more structs. Counted before objects are made.
            pieces.split_whole(self._plan, data)
        return decoder.decode(self._plan, data)

    def encode(self, obj: object) -> bytes:
        """All set fields of an object."""
        return encoder.encode(self._plan, obj, -1)

    def fields_of(self, obj: object) -> int:
        """Property set of an object."""
        values = self._plan.values_of(obj)
        fields = self._plan.fields
        return sum(
            int(field.bit) for field, value in zip(fields, values, strict=True) if value is not None
        )

    def check(self, data: bytes, start: int) -> int:
        """Property set of the object that the bytes from `start` on are, in its exact form.

        -1 for all others; the compiled twin says so, too, of some that are in order but not usual.
        """
        try:
            found = pieces.split_whole(self._plan, data[start:])
        except DecodeError:
            return -1
        return found.present if found.is_canonical else -1


class Frames:
    """Frames one behind the other, on their way out."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def add(self, frame: bytes) -> None:
        """One more, as it is."""
        self._data += frame

    def add_object(self, template: Template, obj: object, time_s: float) -> int:
        """One more with an object.

        Gives the bytes of the frame; -1, and nothing done, for an object that is not usual or has
        no key.
        """
        layout = template.layout
        if type(obj) is not layout.cls:
            return -1
        try:
            payload = template.encode(obj)
            present = layout.fields_of(obj)
        except (EncodeError, AttributeError):
            # Whoever is told of it does it again in another way, and hears what is wrong.
            return -1
        if layout.key_mask & ~present:
            return -1
        attributes = encoder.head(0x00, present)
        time = _DOUBLE.pack(time_s)
        header = b"".join((template.head, time, template.before, attributes, template.after))
        return self._put(header, payload)

    def add_bytes(self, head: bytes, time_s: float, rest: bytes, data: bytes) -> int:
        """One more with bytes as they are, behind a time and the rest of a header."""
        header = b"".join((head, _DOUBLE.pack(time_s), rest, encoder.head(0x40, len(data))))
        return self._put(header, data)

    def truncate(self, size: int) -> None:
        """Forget all behind a place."""
        if not 0 <= size <= len(self._data):
            raise ValueError(f"there are {len(self._data)} bytes, not {size}")
        del self._data[size:]

    def take(self) -> bytes:
        """All of them; from now on there are none."""
        taken = bytes(self._data)
        self._data.clear()
        return taken

    def _put(self, header: bytes, payload: bytes) -> int:
        size = len(header) + len(payload)
        self._data += b"\x1a" + size.to_bytes(4, "big")
        self._data += header
        self._data += payload
        return _PREFIX_BYTES + size


class Template:
    """How a frame with an object of a class begins.

    Head and time, then the property set between `before` and `after`, then the object.
    """

    def __init__(
        self,
        layout: StructLayout,
        encode: Callable[[object], bytes],
        head: bytes,
        before: bytes,
        after: bytes,
    ) -> None:
        self.layout = layout
        self.encode = encode
        self.head = head
        self.before = before
        self.after = after


class WaitingFrames:
    """Frames that wait to be sent, up to a bound, and the shortest way to put one there."""

    def __init__(self, bytes_max: int, lock: Any, bytes_head: bytes) -> None:
        self.frames = Frames()
        self.lock = lock
        """Another one takes its place in a forked process, where nobody would ever give it free."""
        self.plans: dict[Any, Any] = {}
        """By class, what has its template; filled by others."""
        self.subjects: dict[str, bytes] = {}
        """By subject, what stands between the time and the bytes under it; filled by others."""
        self.named: dict[tuple[Any, str], Template] = {}
        """Templates of published objects by class and subject; filled by the client's sender."""
        self.bytes_max = bytes_max
        self.size = 0
        """Bytes that wait, here and in what was taken but not written yet."""
        self.is_short = False
        """Whether frames of version 2 are what is wanted, so that the short way may be taken."""
        self.is_awaited = False
        """Whether whoever writes knows that something waits."""
        self.added_count = 0
        self._bytes_head = bytes_head
        self._piece_bytes = 0
        self._told_bytes = 0

    def tell_each(self, piece_bytes: int) -> None:
        """Tell whoever writes again whenever so many more bytes wait."""
        self._piece_bytes = piece_bytes
        self._told_bytes = piece_bytes

    def add(self, frame: bytes) -> bool:
        """One more, as it is; whether whoever writes must be told. Who calls holds the lock."""
        self.frames.add(frame)
        return self._note(len(frame)) == 1

    def take(self) -> bytes:
        """All that waits; from now on nothing does."""
        self._told_bytes = self._piece_bytes
        return self.frames.take()

    def forget_subjects(self) -> None:
        """None came before."""
        self.subjects.clear()
        self.named.clear()

    def put_object(self, obj: object, time_s: float) -> int:
        """One more object: 1 if whoever writes must be told, 0 if not, -1 if this is not the way.

        Then nothing was done: it is an object of a class that is new here, or not usual, or no
        object at all, or there is no room.
        """
        with self.lock or nullcontext():
            plan = self.plans.get(type(obj))
            if plan is None or not self.is_short:
                return -1
            return self._wrote(self.frames.add_object(plan.template, obj, time_s))

    def put_bytes(self, subject: object, data: object, time_s: float) -> int:
        """The same for bytes under a subject that came before."""
        if type(subject) is not str or type(data) is not bytes:
            return -1
        with self.lock or nullcontext():
            rest = self.subjects.get(subject)
            if rest is None or not self.is_short or len(data) > PAYLOAD_BYTES_MAX - 16:
                return -1
            return self._wrote(self.frames.add_bytes(self._bytes_head, time_s, rest, data))

    def put_named(self, obj: object, subject: object, time_s: float) -> int:
        """The same for an object under a subject, if its class was published there before."""
        if type(subject) is not str:
            return -1
        with self.lock or nullcontext():
            template = self.named.get((type(obj), subject))
            if template is None or not self.is_short:
                return -1
            return self._wrote(self.frames.add_object(template, obj, time_s))

    def _wrote(self, size: int) -> int:
        """Count a frame that was appended; it is removed again if it exceeds the bound."""
        if size < 0:
            return -1
        # A single frame is accepted whatever the bound: otherwise it could never be sent.
        if self.size + size > self.bytes_max and self.size > 0:
            self.frames.truncate(len(self.frames) - size)
            return -1
        return self._note(size)

    def _note(self, size: int) -> int:
        """So many bytes more wait: 1 if whoever writes must be told, else 0."""
        self.size += size
        self.added_count += 1
        waiting_bytes = len(self.frames)
        if self.is_awaited and (not self._piece_bytes or waiting_bytes < self._told_bytes):
            return 0
        self._told_bytes = waiting_bytes + self._piece_bytes
        self.is_awaited = True
        return 1


class PublishPath:
    """The way of an object from its publisher to where it waits."""

    def __init__(
        self,
        waiting: WaitingFrames,
        first: Callable[..., Any],
        wake: Any,
        clock: Callable[[], float],
    ) -> None:
        """`first` publishes what cannot go the shortest way, `wake` tells whoever writes."""
        self._waiting = waiting
        self._first = first
        self._wake = wake
        self._clock = clock

    def publish(self, what: Any, data: Any = None, *, only: Any = None, subject: Any = "") -> None:
        """Create an object, or update those of its fields that are set or named in `only`.

        Or send bytes under a subject. WouldBlock when too much waits to be sent.
        """
        is_due = -1
        if only is None and not subject:
            if data is None:
                is_due = self._waiting.put_object(what, self._clock())
            else:
                is_due = self._waiting.put_bytes(what, data, self._clock())
        elif only is None and data is None:
            is_due = self._waiting.put_named(what, subject, self._clock())
        if is_due < 0:
            is_due = self._first(what, data, only, subject)
        if is_due:
            self._wake()


class AlikeFrames:
    """Frames of version 2 with the same header, but for one time in it, or two in a row."""

    def __init__(self, first: bytes, rest: bytes, second: int) -> None:
        """`first` is what stands before the first time, `rest` what stands behind the last.

        `second` is the tag of the second time, or -1.
        """
        self._first = first
        self._rest = rest
        self._middle = b"" if second < 0 else bytes((second, 0xFB))
        self._sent_at = len(first)
        self._rest_at = len(first) + (8 if second < 0 else 18)
        self.size = self._rest_at + len(rest)

    def fits(self, buffer: bytes, at: int, bytes_max: int) -> int:
        """Bytes of the frame that begins at `at`, if it is whole and has this header; else 0."""
        if len(buffer) - at < _PREFIX_BYTES or buffer[at] != 0x1A:
            return 0
        size = int.from_bytes(buffer[at + 1 : at + _PREFIX_BYTES], "big")
        at += _PREFIX_BYTES
        if size > len(buffer) - at or size < self.size or size > bytes_max:
            return 0
        middle = at + self._sent_at + 8
        if (
            not buffer.startswith(self._first, at)
            or not buffer.startswith(self._middle, middle)
            or not buffer.startswith(self._rest, at + self._rest_at)
        ):
            return 0
        return _PREFIX_BYTES + size

    def times(self, buffer: bytes, at: int) -> tuple[float, float]:
        """Both times of a frame that fits; 0 for one that is not there."""
        at += _PREFIX_BYTES + self._sent_at
        second: float = _DOUBLE.unpack_from(buffer, at + 10)[0] if self._middle else 0.0
        return _DOUBLE.unpack_from(buffer, at)[0], second

    def forward(
        self,
        buffer: bytes,
        start: int,
        bytes_max: int,
        layout: StructLayout,
        named: int,
        time_s_max: float,
        plain: Frames | None,
        plain_head: bytes,
        plain_tail: bytes,
        full: Frames | None,
        full_head: bytes,
        full_tail: bytes,
    ) -> tuple[int, int]:
        """Pass frames on, from `start` up to one that is not alike or not of a usual object.

        Each goes to `plain`, to `full` or to both, with another header around its first time. Gives
        where the first that was not passed on begins, and how many were.
        """
        at, count = start, 0
        while size := self.fits(buffer, at, bytes_max):
            payload = buffer[at + _PREFIX_BYTES + self.size : at + size]
            present = layout.check(payload, 0)
            if present < 0 or present & ~named or layout.key_mask & ~present:
                break
            sent_at = at + _PREFIX_BYTES + self._sent_at
            sent = buffer[sent_at : sent_at + 8]
            # Asked this way round, since a time may also be not a number.
            if not (-time_s_max <= _DOUBLE.unpack(sent)[0] <= time_s_max):
                break
            if plain is not None:
                plain._put(plain_head + sent + plain_tail, payload)
            if full is not None:
                full._put(full_head + sent + full_tail, payload)
            at += size
            count += 1
        return at, count


class RouteVersion:
    """Validity of what is cached about a type; shut when a cached fact may no longer hold."""

    def __init__(self) -> None:
        self.number = 1

    def shut(self) -> None:
        """Invalidate everything that was cached before."""
        self.number += 1


_Parts = tuple[bytes, bytes, bool]
_Frame = tuple[_Parts, float, float, int, bytes, int]
"""A frame: the parts of its header around its times, both times, the number of bytes before the
object, the object, and the offset of its end."""
_FORM_COUNT: Final = 3
_OLD_FORM: Final = 2


class KnownHeader:
    """A header that was received before, and what is cached for it until its gate is shut."""

    def __init__(self, owner: Any, parts: _Parts) -> None:
        """`parts` is the result of `KnownHeaders.parts`."""
        self.owner = owner
        self._parts = parts
        self._gate: RouteVersion | None = None
        self._number = 0

    @property
    def is_open(self) -> bool:
        """Whether the cached facts are valid."""
        return self._gate is not None and self._gate.number == self._number


class ForwardedHeader(KnownHeader):
    """How objects with a known header are forwarded: in up to three forms.

    The forms are: without a subject, with the subject, and for programs of version 1.
    """

    def __init__(self, owner: Any, parts: _Parts, heads: list[bytes], rests: list[bytes]) -> None:
        """Each head ends before the first time of the header, each rest begins after the
        second."""
        if len(heads) != _FORM_COUNT or len(rests) != _FORM_COUNT:
            raise ValueError("a header goes out in three forms")
        super().__init__(owner, parts)
        self._heads = heads
        self._rests = rests
        self._count = 0
        self._outs: list[Frames] = []
        self._kinds = b""

    def open(
        self,
        gate: RouteVersion,
        layout: StructLayout,
        named: int,
        is_message: bool,
        outs: list[Frames],
        kinds: bytes,
    ) -> None:
        """Set how objects are forwarded until the gate is shut.

        Frames are written to all of `outs`, to each in the form that `kinds` has for it. Frames of
        messages are forwarded by the relay alone; cached objects are returned to its caller.
        """
        if len(outs) != len(kinds) or any(kind >= _FORM_COUNT for kind in kinds):
            raise ValueError("a form for each out")
        self._gate, self._number = gate, gate.number
        self._layout, self._named = layout, named
        self._is_message = is_message
        self._outs, self._kinds = outs, kinds

    def frame(self, kind: int, sent_s: float, now_s: float, payload: bytes) -> bytes:
        """One frame with an object, in the form `kind`."""
        if not 0 <= kind < _FORM_COUNT:
            raise ValueError("no such form")
        header = self._heads[kind] + _DOUBLE.pack(sent_s) + b"\x07\xfb" + _DOUBLE.pack(now_s)
        header += self._rests[kind]
        if kind != _OLD_FORM:
            size = len(header) + len(payload)
            return b"\x1a" + size.to_bytes(4, "big") + header + payload
        header += b"\x04" + encoder.head(0x00, len(payload))
        if len(header) > 0xFFFF:
            raise ValueError("a header that is too long")
        return len(header).to_bytes(2, "little") + header + payload

    def is_in_order(self, payload: bytes) -> bool:
        """Whether the object has only named fields and the whole key, in exact form."""
        present = self._layout.check(payload, 0)
        return present >= 0 and not present & ~self._named and not self._layout.key_mask & ~present

    def put_all(self, sent_s: float, now_s: float, payload: bytes) -> None:
        """Write a frame to all outputs of the form."""
        for out, kind in zip(self._outs, self._kinds, strict=True):
            out.add(self.frame(kind, sent_s, now_s, payload))
        self._count += 1


class KnownHeaders:
    """Headers that were received before, found by their bytes.

    Their number is bounded. A header that is no longer used is replaced by another one.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._all: dict[_Parts, Any] = {}
        self._frame: _Frame | None = None
        self.is_new = False
        """Whether the current frame is complete and has an unknown header."""

    def __len__(self) -> int:
        return len(self._all)

    def payload(self) -> bytes:
        """The object of the current frame."""
        return self._look()[4]

    def parts(self) -> _Parts:
        """The bytes of its header before and after its times, and whether it has two times."""
        return self._look()[0]

    def wants(self) -> bool:
        """Whether its header, which is unknown, should be remembered with `learn`."""
        return self._look()[3] <= HEADER_MEMO_BYTES_MAX

    def learn(self, one: KnownHeader) -> None:
        """Remember the header of the current frame, for which `wants` returned true."""
        if len(self._all) >= HEADER_MEMO_COUNT_MAX:
            del self._all[next(iter(self._all))]
        self._all[self.parts()] = one

    def forget(self, one: KnownHeader | None = None) -> None:
        """Forget one header, or all of them."""
        if one is None:
            self._all.clear()
        else:
            self._all.pop(one._parts, None)

    def _look(self) -> _Frame:
        if self._frame is None:
            raise ValueError("there is no current frame")
        return self._frame


class FrameRelay(KnownHeaders):
    """Forwards frames of one client that have known headers, in any order of headers."""

    def __init__(self, version: int, time_s_max: float) -> None:
        """Frames of clients of `version`; with times beyond `time_s_max` they are not forwarded."""
        super().__init__(version)
        self._time_s_max = time_s_max
        self._touched: list[ForwardedHeader] = []
        self._form: ForwardedHeader | None = None
        self._now_s = 0.0
        self.count = 0
        """Frames that the last call forwarded."""
        self.stop = 0
        """The offset at which the last of them ended."""
        self.work = 0
        """Units of work that the last call did."""
        self.is_spent = False
        """Whether the last call reached its bound on work."""
        self.is_checked = False
        """Whether the object of the next frame was checked and is valid."""
        self.is_run = False
        """Whether the next frames should be written once for all outputs; always false here."""

    def pass_on(
        self, buffer: bytes, start: int, bytes_max: int, now_s: float, work_max: int
    ) -> ForwardedHeader | None:
        """Forward frames from `start` on, up to one that it cannot forward or until `work_max`.

        A frame is a unit of work, and so is each of its copies. Returns the form of the next
        frame's header; None if that header is unknown or the frame is not complete.
        """
        self.count, self.stop, self.work = 0, start, 0
        self.is_checked = self.is_new = self.is_spent = False
        self._form, self._now_s = None, now_s
        while frame := _survey(buffer, self.stop, bytes_max, self._version):
            self._frame = frame
            parts, sent_s, _, _, payload, stop = frame
            form: ForwardedHeader | None = self._all.get(parts)
            self._form = form
            if form is None:
                self.is_new = True
                return None
            if not form.is_open or not form.is_in_order(payload):
                return form
            # Asked this way round, since a time may also be not a number.
            if not (-self._time_s_max <= sent_s <= self._time_s_max):
                return form
            if not form._is_message:
                self.is_checked = True
                return form
            self.deliver()
            self.count += 1
            self.stop = stop
            self.work += 1 + len(form._kinds)
            if self.work >= work_max:
                self.is_spent = True
                break
        self._form = self._frame = None
        return None

    def checked(self) -> tuple[bytes, bytes, int, float]:
        """Object, key, property set and time of the current frame, which has to be checked."""
        payload = self.payload()
        if self._form is None or not self.is_checked:
            raise ValueError("the object was not checked")
        layout = self._form._layout
        return payload, _key_of(layout, payload), layout.check(payload, 0), self._look()[1]

    def deliver(self) -> None:
        """Write the current frame to all outputs of its form."""
        _, sent_s, _, _, payload, _ = self._look()
        form = self._form
        if form is None:
            raise ValueError("the header is not known")
        if not form._count:
            self._touched.append(form)
        form.put_all(sent_s, self._now_s, payload)

    def take_touched(self) -> list[tuple[Any, int]]:
        """Owners of the forms that forwarded frames since the last call, each with the number of
        frames; ends work on a buffer."""
        touched = [(form.owner, form._count) for form in self._touched]
        for form in self._touched:
            form._count = 0
        self._touched = []
        self._form = self._frame = None
        return touched


def _is_shut(known: KnownHeader) -> bool:
    return not known.is_open


def _key_of(layout: StructLayout, payload: bytes) -> bytes:
    return pieces.canonical_key(layout._plan, pieces.split_whole(layout._plan, payload))


def _survey(data: bytes, start: int, bytes_max: int, version: int) -> _Frame | None:
    """The parts of the frame at `start`; None if it is incomplete or has an unusual header."""
    try:
        if version == 1:
            first_at = start + 2
            end = first_at + int.from_bytes(data[start:first_at], "little")
            at = _text_end(data, first_at + 2, end)
            is_usual = data[first_at : first_at + 2] == b"\xa3\x02" and data[at] == 0x03
            at += 1
            stop = end
        else:
            first_at = at = start + _PREFIX_BYTES
            end = stop = first_at + int.from_bytes(data[start + 1 : first_at], "big")
            is_usual = data[start] == 0x1A and end - first_at <= bytes_max
        count = data[at] - 0xA2
        if not is_usual or data[at + 1] != 0x01 or not 0 <= count <= 21:
            return None
        time_at = _text_end(data, at + 2, end) + 2
        if data[time_at - 2 : time_at] != b"\x02\xfb":
            return None
        at = time_at + 8
        has_second = count > 0 and data[at : at + 2] == b"\x07\xfb"
        if has_second:
            at, count = at + 10, count - 1
        rest_at = at
        for _ in range(count):
            if data[at] > 23:
                return None
            at = _entry_end(data, at + 1, end)
        rest = data[rest_at:at]
        if version == 1:
            if data[at] != 0x04 or data[at + 1] >= 0x20:
                return None
            size, after = _argument(data, at + 1)
            if after != end or size + end - first_at > bytes_max:
                return None
            at, stop = end, end + size
        if at > end or stop > len(data):
            return None
        parts = (data[first_at:time_at], rest, has_second)
        second: float = _DOUBLE.unpack_from(data, time_at + 10)[0] if has_second else 0.0
        sent: float = _DOUBLE.unpack_from(data, time_at)[0]
        return parts, sent, second, at - start, data[at:stop], stop
    except (IndexError, ValueError, struct.error):
        return None


def _text_end(data: bytes, at: int, end: int) -> int:
    if data[at] >> 5 != 3:
        raise ValueError("not a text")
    size, at = _argument(data, at)
    if at + size > end:
        raise ValueError("not all of it")
    return at + size


def _entry_end(data: bytes, at: int, end: int) -> int:
    first = data[at]
    if first in (0xF4, 0xF5):
        return at + 1
    if first == 0xFB:
        return at + 9
    return _argument(data, at)[1] if first < 0x40 else _text_end(data, at, end)


def _argument(data: bytes, at: int) -> tuple[int, int]:
    info = data[at] & 0x1F
    if info < 24:
        return info, at + 1
    if info > 27:
        raise ValueError("not a head")
    after = at + 1 + (1 << (info - 24))
    return int.from_bytes(data[at + 1 : after], "big"), after


class ObjectState:
    """An object as it was after one change, and where that came from. Only `epoch` ever changes."""

    __slots__ = (
        "created",
        "created_from",
        "epoch",
        "modified",
        "modified_from",
        "operation",
        "payload",
        "present",
        "received",
        "subject",
    )

    def __init__(
        self,
        payload: bytes,
        present: int,
        subject: str,
        created: float,
        created_from: int,
        modified: float,
        modified_from: int,
        operation: str,
        received: float,
        epoch: int,
    ) -> None:
        self.payload = payload
        """The whole object."""
        self.present = present
        """Property set of the payload."""
        self.subject = subject
        """Empty for the default one."""
        self.created = created
        self.created_from = created_from
        self.modified = modified
        self.modified_from = modified_from
        self.operation = operation
        self.received = received
        self.epoch = epoch
        """The connection on which it was last received."""


class ReceivedUpdate:
    """Something that happened to an object, with the bytes that told of it."""

    __slots__ = (
        "_entry",
        "_has_times",
        "_known",
        "_own_id",
        "_part",
        "_payload",
        "_received",
        "_sent_time",
        "_server_sent_time",
        "_shape",
        "_whole",
        "fault",
        "operation",
    )

    def __init__(
        self,
        operation: str,
        header: Any,
        shape: Any,
        payload: bytes,
        entry: Any,
        own_id: int,
        received: float,
    ) -> None:
        self.operation = operation
        """`create`, `update` or `remove`. A message is always created."""
        self._known = header
        """All that was sent with the update, but for the times where these stand apart."""
        self._has_times = False
        self._sent_time = 0.0
        self._server_sent_time = 0.0
        self._shape = shape
        self._payload = payload
        self._entry = entry
        self._own_id = own_id
        self._received = received
        self._part: Any = None
        self._whole: Any = None
        self.fault: DecodeError | None = None
        """Why its bytes are no object of the type, if that came out."""

    @property
    def update(self) -> Any:
        """What was published: the fields that the update speaks of, and the key."""
        if self._part is None:
            self._part = self._decode(self._payload)
        return self._part

    @property
    def object(self) -> Any:
        """The whole object as the update left it, or as it was when it was removed."""
        if self._entry is None or self._entry.payload is self._payload:
            return self.update
        if self._whole is None:
            self._whole = self._decode(self._entry.payload)
        return self._whole

    @property
    def data(self) -> bytes:
        """The bytes of a bare subject; of an object its encoded update."""
        if not self._shape.is_bytes:
            return self._payload
        found: bytes = self._shape.bytes_of(self._payload)
        return found

    def _decode(self, payload: bytes) -> Any:
        try:
            return self._shape.decode(payload)
        except DecodeError as error:
            # Looked at lazily, bad bytes show only here; whoever called back must know them from
            # a mistake in the callback.
            self.fault = error
            raise


class DeliveredHeader(KnownHeader):
    """The callbacks for objects with a known header, and where cached objects are stored."""

    def open(
        self,
        gate: RouteVersion,
        header: Any,
        shape: Any,
        targets: list[Any] | None,
        objects: dict[bytes, ObjectState] | None,
    ) -> None:
        """Set the targets until the gate is shut; without targets, objects are only checked.

        Objects of a cached type are stored in `objects` before the targets are called.
        """
        self._gate, self._number = gate, gate.number
        self._header = header
        self._shape = shape
        self._targets = targets
        self._objects = objects

    def store(
        self, update: bytes, sent_s: float, received: float, epoch: int
    ) -> ObjectState | None:
        """Store an object; None, and nothing is changed, for what is not usual."""
        assert self._objects is not None
        layout, header = self._shape.layout, self._header
        present = layout.check(update, 0)
        if present < 0 or layout.key_mask & ~present:
            return None
        key = _key_of(layout, update)
        known = self._objects.get(key)
        payload, operation, created, created_from = update, "create", sent_s, header.sender
        if known is not None:
            if known.subject != header.subject:
                return None
            operation, created, created_from = "update", known.created, known.created_from
            if (known.present | present) & ~header.attributes & ~layout.key_mask:
                try:
                    payload = pieces.merge(layout._plan, known.payload, update, header.attributes)
                except CodecError:
                    # Reported by whoever processes the frame next.
                    return None
                named = header.attributes & ~layout.key_mask
                present = (known.present & ~named) | (present & (named | layout.key_mask))
        state = ObjectState(
            payload,
            present,
            header.subject,
            created,
            created_from,
            sent_s,
            header.sender,
            operation,
            received,
            epoch,
        )
        self._objects[key] = state
        return state


class FrameDelivery(KnownHeaders):
    """Delivers frames with known headers to callbacks, in any order of headers.

    It stops at a frame that it cannot deliver, and when a gate is shut.
    """

    def __init__(self) -> None:
        super().__init__(2)
        self.count = 0
        """Frames that the last call delivered."""
        self.start = 0
        self.stop = 0
        """Start and end of the last of them, without its size prefix."""
        self.is_checked = False
        """Whether the object of the next frame was checked and is valid."""
        self._call: DeliveredHeader | None = None

    def times(self) -> tuple[float, float | None]:
        """The times of the current frame; the second is None if the header has only one."""
        parts, sent_s, second_s, *_ = self._look()
        return sent_s, second_s if parts[2] else None

    def checked(self) -> tuple[bytes, bytes, int]:
        """Object, key and property set of the current frame, which has to be checked."""
        payload = self.payload()
        if self._call is None or not self.is_checked:
            raise ValueError("the object was not checked")
        layout = self._call._shape.layout
        return payload, _key_of(layout, payload), layout.check(payload, 0)

    def end(self) -> None:
        """Release the current frame."""
        self._frame = self._call = None

    def tell(
        self,
        buffer: bytes,
        start: int,
        bytes_max: int,
        cls: type[ReceivedUpdate],
        own_id: int,
        received: float,
        epoch: int,
        failed: Callable[[Any, Any, BaseException], object],
    ) -> DeliveredHeader | None:
        """Call all targets for each frame from `start` on, up to one that it cannot deliver.

        Returns the call of that frame's header; None if the header is unknown or the frame is not
        complete. Events are objects of the class `cls`, derived from Arrived. `failed` is called
        with target, event and error when a callback fails.
        """
        self.count, self.start, self.stop = 0, start, start
        self.is_checked = self.is_new = False
        self._frame = self._call = None
        while frame := _survey(buffer, start, bytes_max, 2):
            parts, sent_s, second_s, _, payload, stop = frame
            call: DeliveredHeader | None = self._all.get(parts)
            if call is None or not call.is_open or call._targets is None:
                self._stop_at(call, frame)
                return call
            state, operation = None, "create"
            if call._objects is not None:
                state = call.store(payload, sent_s, received, epoch)
                if state is None:
                    self._stop_at(call, frame)
                    return call
                operation = state.operation
            event = cls(operation, call._header, call._shape, payload, state, own_id, received)
            event._sent_time, event._server_sent_time = sent_s, second_s
            event._has_times = True
            self.start, self.stop = start + _PREFIX_BYTES, stop
            self.count += 1
            start = stop
            for target in call._targets:
                if not target.is_open:
                    continue
                try:
                    target.callback(event)
                except BaseException as error:
                    failed(target, event, error)
            if _is_shut(call):
                break
        return None

    def _stop_at(self, call: DeliveredHeader | None, frame: _Frame) -> None:
        """Make a frame that cannot be delivered here the current one."""
        self._frame, self._call = frame, call
        self.is_new = call is None
        if call is not None and call.is_open:
            layout = call._shape.layout
            present = layout.check(frame[4], 0)
            self.is_checked = present >= 0 and not layout.key_mask & ~present
