"""Frames of version 2 that wait to be sent, and the path of a published object to them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from skerry.codec import encoder
from skerry.errors import EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX
from tests.unit.codec.reference.layout import StructLayout

PREFIX_BYTES: Final = 5
"""Length of a frame: a CBOR head and 32 bits."""
DOUBLE: Final = struct.Struct(">d")


class Template:
    """The header of a frame with an object of a class.

    It has head and time, then the property set between `before` and `after`, then the object.
    """

    def __init__(
        self,
        layout: StructLayout,
        head: bytes,
        before: bytes,
        after: bytes,
    ) -> None:
        self.layout = layout
        self.head = head
        self.before = before
        self.after = after


class Frames:
    """A buffer of consecutive frames to be sent."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def add(self, frame: bytes) -> None:
        """Append a frame."""
        self._data += frame

    def add_object(self, template: Template, obj: object, time_s: float) -> int:
        """Append a frame with an object and return its size.

        For an unusual object, or one without a key, nothing is appended and -1 is returned.
        """
        layout = template.layout
        if type(obj) is not layout.cls:
            return -1
        try:
            payload = layout.encode(obj)
            present = layout.fields_of(obj)
        except (EncodeError, AttributeError):
            # The caller tries another way, which raises the error.
            return -1
        if layout.key_mask & ~present:
            return -1
        attributes = encoder.head(0x00, present)
        time = DOUBLE.pack(time_s)
        header = b"".join((template.head, time, template.before, attributes, template.after))
        return self._put(header, payload)

    def add_bytes(self, head: bytes, time_s: float, rest: bytes, data: bytes) -> int:
        """Append a frame: head, time and rest of the header, and bytes. Returns its size."""
        header = b"".join((head, DOUBLE.pack(time_s), rest, encoder.head(0x40, len(data))))
        return self._put(header, data)

    def truncate(self, size: int) -> None:
        """Keep only the first `size` bytes."""
        if not 0 <= size <= len(self._data):
            raise ValueError(f"there are {len(self._data)} bytes, not {size}")
        del self._data[size:]

    def take(self) -> bytes:
        """Return all frames and empty the buffer."""
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
    """Frames that wait to be sent, up to a bound, and the fast path to append one."""

    def __init__(self, bytes_max: int, lock: Any, bytes_head: bytes) -> None:
        self.frames = Frames()
        self.lock = lock
        """Replaced in a forked process, where no thread would ever release it."""
        self.templates: dict[Any, Template] = {}
        """Templates by class, or by class and subject. Filled by the send buffer."""
        self.subjects: dict[str, bytes] = {}
        """The rest of the header after the time, by subject. Filled by the send buffer."""
        self.bytes_max = bytes_max
        self.size = 0
        """Bytes that wait: those here, and those taken but not written yet."""
        self.is_short = False
        """Whether the connection uses version 2, for which the fast path works."""
        self.is_awaited = False
        """Whether the writer was notified that frames wait."""
        self.added_count = 0
        self._bytes_head = bytes_head
        self._piece_bytes = 0
        self._notified_bytes = 0

    def notify_every(self, piece_bytes: int) -> None:
        """Notify the writer again after every `piece_bytes` bytes."""
        self._piece_bytes = piece_bytes
        self._notified_bytes = piece_bytes

    def add(self, frame: bytes) -> bool:
        """Append a frame; whether the writer must be notified. The caller holds the lock."""
        self.frames.add(frame)
        return self._note(len(frame)) == 1

    def take(self) -> bytes:
        self._notified_bytes = self._piece_bytes
        return self.frames.take()

    def forget_subjects(self) -> None:
        self.subjects.clear()
        self.templates.clear()

    def put(self, what: object, data: object, subject: object, time_s: float) -> int:
        """Append an object under a subject or None, or bytes under the subject `what`.

        1 if the writer must be notified, 0 if not, -1 if nothing was appended.
        """
        with self.lock or nullcontext():
            if not self.is_short:
                return -1
            if data is None:
                key = type(what) if subject is None else (type(what), subject)
                template = self.templates.get(key)
                if template is None:
                    return -1
                return self._wrote(self.frames.add_object(template, what, time_s))
            if type(what) is not str or type(data) is not bytes:
                return -1
            rest = self.subjects.get(what)
            if rest is None or len(data) > PAYLOAD_BYTES_MAX - 16:
                return -1
            return self._wrote(self.frames.add_bytes(self._bytes_head, time_s, rest, data))

    def _wrote(self, size: int) -> int:
        """Count an appended frame, or remove it if it exceeds the bound."""
        if size < 0:
            return -1
        # A single frame is accepted at any size, because otherwise it could never be sent.
        if self.size + size > self.bytes_max and self.size > 0:
            self.frames.truncate(len(self.frames) - size)
            return -1
        return self._note(size)

    def _note(self, size: int) -> int:
        """Count `size` more bytes; 1 if the writer must be notified, else 0."""
        self.size += size
        self.added_count += 1
        waiting_bytes = len(self.frames)
        if self.is_awaited and (not self._piece_bytes or waiting_bytes < self._notified_bytes):
            return 0
        self._notified_bytes = waiting_bytes + self._piece_bytes
        self.is_awaited = True
        return 1


class PublishPath:
    """The path of a published object to the waiting frames."""

    def __init__(
        self,
        waiting: WaitingFrames,
        first: Callable[..., Any],
        wake: Any,
        clock: Callable[[], float],
    ) -> None:
        """`first` publishes what the fast path does not handle, `wake` notifies the writer."""
        self._waiting = waiting
        self._first = first
        self._wake = wake
        self._clock = clock

    def publish(self, what: Any, data: Any = None, *, only: Any = None, subject: Any = "") -> None:
        """Create an object, or update those of its fields that are set or named in `only`.

        Or send bytes under a subject. Raises WouldBlock if too many bytes wait to be sent.
        """
        is_due = -1
        if only is None and (data is None or not subject):
            is_due = self._waiting.put(what, data, subject or None, self._clock())
        if is_due < 0:
            is_due = self._first(what, data, only, subject)
        if is_due:
            self._wake()
