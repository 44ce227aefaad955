"""What runs for every single message: objects to bytes and back, frame after frame.

This is the plain twin of `swift.pyx`, which Cython compiles where a C compiler is at hand and
which then stands in its place under the same name. Nobody else knows which of the two is in use:
tests run both and compare. A class that mypyc compiles cannot reach the slots of a plain one, or
use an event again that nobody kept, and that is where the time of these loops went.

Frames with the same header, but for the times in it, come in a row. What is done with one of them
is done here with all: they are told (`Telling`) or passed on (`Alike`), up to the first that is
something else or not usual, which is for the caller to look at.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from skerry.codec import decoder, encoder, pieces
from skerry.codec.plans import StructPlan
from skerry.errors import DecodeError, EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX, STRUCT_COUNT_MAX

__all__ = ["Alike", "Arrived", "Frames", "Layout", "Outlet", "Telling", "Template", "Waiting"]

_PREFIX_BYTES: Final = 5
_DOUBLE: Final = struct.Struct(">d")


class Layout:
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
        layout: Layout,
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


class Waiting:
    """Frames that wait to be sent, up to a bound, and the shortest way to put one there."""

    def __init__(self, bytes_max: int, lock: Any, bytes_head: bytes) -> None:
        self.frames = Frames()
        self.lock = lock
        """Another one takes its place in a forked process, where nobody would ever give it free."""
        self.plans: dict[Any, Any] = {}
        """By class, what has its template; filled by others."""
        self.subjects: dict[str, bytes] = {}
        """By subject, what stands between the time and the bytes under it; filled by others."""
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

    def _wrote(self, size: int) -> int:
        """A frame was written behind the others; it goes again if there is no room for it."""
        if size < 0:
            return -1
        # A single frame is let through however small the bound: it could never go out otherwise.
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


class Outlet:
    """The way of an object from its publisher to where it waits."""

    def __init__(
        self, waiting: Waiting, first: Callable[..., Any], wake: Any, clock: Callable[[], float]
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
        if is_due < 0:
            is_due = self._first(what, data, only, subject)
        if is_due:
            self._wake()


class Alike:
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
        layout: Layout,
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


class Arrived:
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


class Telling:
    """Tells of frames that are alike, until there is something else or somebody wants it to end.

    `start` and `stop` are those of the last frame that was told of, its size in front left out.
    """

    def __init__(self) -> None:
        self.count = 0
        """Frames that were told of."""
        self.start = 0
        self.stop = 0
        self._is_ended = False

    def end(self) -> None:
        """Tell of no further frame."""
        self._is_ended = True

    def tell(
        self,
        alike: Alike,
        buffer: bytes,
        start: int,
        bytes_max: int,
        cls: type[Arrived],
        operation: str,
        header: Any,
        shape: Any,
        targets: list[Any],
        own_id: int,
        received: float,
        failed: Callable[[Any, Any, BaseException], object],
    ) -> None:
        """Call all targets back for each frame from `start` on, up to one that is not alike.

        Events are objects of the class `cls`, derived from Arrived. `failed` is called with target,
        event and error when a callback fails.
        """
        while not self._is_ended and (size := alike.fits(buffer, start, bytes_max)):
            payload = buffer[start + _PREFIX_BYTES + alike.size : start + size]
            event = cls(operation, header, shape, payload, None, own_id, received)
            event._sent_time, event._server_sent_time = alike.times(buffer, start)
            event._has_times = True
            self.start, self.stop = start + _PREFIX_BYTES, start + size
            self.count += 1
            start += size
            for target in targets:
                if not target.is_open:
                    continue
                try:
                    target.callback(event)
                except BaseException as error:
                    failed(target, event, error)
