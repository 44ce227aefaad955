"""Frames of version 2 that wait to be sent, and the path of a published object to them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from skerry.codec import encoder
from skerry.codec.uncompiled.layout import StructLayout
from skerry.errors import EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX

__all__ = ["DOUBLE", "PREFIX_BYTES", "Frames", "PublishPath", "Template", "WaitingFrames"]

PREFIX_BYTES: Final = 5
"""Length of a frame: a CBOR head and 32 bits."""
DOUBLE: Final = struct.Struct(">d")


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
        time = DOUBLE.pack(time_s)
        header = b"".join((template.head, time, template.before, attributes, template.after))
        return self._put(header, payload)

    def add_bytes(self, head: bytes, time_s: float, rest: bytes, data: bytes) -> int:
        """One more with bytes as they are, behind a time and the rest of a header."""
        header = b"".join((head, DOUBLE.pack(time_s), rest, encoder.head(0x40, len(data))))
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
        return PREFIX_BYTES + size


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
