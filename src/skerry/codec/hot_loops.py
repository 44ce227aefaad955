"""The loops that run for every message: encoding and decoding of objects, frame after frame.

These are the classes of the uncompiled build. Where a C compiler is available, Cython compiles
`hot_loops.pyx`, and the extension replaces this module under the same name. For type checkers this
module declares what both have, and what only the extension has. No other module knows which of the
two is in use. Cython and not mypyc,
because a class that mypyc compiles can neither reach the slots of a Python class nor reuse an event
object that the callback did not keep, and these two took most of the time of these loops.

Neighbouring frames often have the same header except for its times. In the compiled build, one call
handles a whole run of them: it delivers (`FrameDelivery`) or forwards (`FrameRelay`) frames up to
the first whose header is not known. Here no header is ever known, so the callers decode each frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from skerry.codec import decoder, encoder, pieces
from skerry.codec.operation import Operation
from skerry.codec.plans import StructPlan
from skerry.errors import DecodeError
from skerry.limits import STRUCT_COUNT_MAX

_Parts: TypeAlias = tuple[bytes, bytes, bool]


class StructLayout:
    """Encodes, decodes and checks objects of a class."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan

    def decode(self, data: bytes) -> Any:
        """Decode an object. Raises DecodeError if the bytes are not an object of the type."""
        if len(data) > STRUCT_COUNT_MAX:
            # Fewer bytes cannot hold more structs. They are counted before objects are created.
            pieces.split_whole(self._plan, data)
        return decoder.decode(self._plan, data)

    def encode(self, obj: object) -> bytes:
        """Encode all set fields of an object."""
        return encoder.encode(self._plan, obj, -1)

    def check(self, data: bytes, start: int) -> int:
        """Property set of the object that begins at `start`, if it is in canonical form.

        -1 for all others. The compiled twin also returns -1 for some valid but unusual ones.
        """
        try:
            found = pieces.split_whole(self._plan, data[start:])
        except DecodeError:
            return -1
        return found.present if found.is_canonical else -1


# -- sending


class Template:
    """The header of a frame with an object of a class; only the compiled build needs its parts."""

    def __init__(self, layout: StructLayout, head: bytes, before: bytes, after: bytes) -> None:
        pass


class Frames:
    """A buffer of consecutive frames to be sent."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def add(self, frame: bytes) -> None:
        self._data += frame

    def take(self) -> bytes:
        """Return all frames and empty the buffer."""
        taken = bytes(self._data)
        self._data.clear()
        return taken


class WaitingFrames:
    """Frames that wait to be sent, up to a bound that the send buffer checks."""

    def __init__(self, bytes_max: int, lock: Any, bytes_head: bytes) -> None:
        self.frames = Frames()
        self.lock = lock
        """Replaced in a forked process, where no thread would ever release it."""
        self.templates: dict[Any, Template] = {}
        self.subjects: dict[str, bytes] = {}
        """Filled by the send buffer for the fast path of the compiled build."""
        self.bytes_max = bytes_max
        self.size = 0
        """Bytes that wait: those here, and those taken but not written yet."""
        self.is_short = False
        """Whether the connection uses version 2."""
        self.is_awaited = False
        """Whether the writer was notified that frames wait."""
        self.added_count = 0
        self._piece_bytes = 0
        self._notified_bytes = 0

    def notify_every(self, piece_bytes: int) -> None:
        """Notify the writer again after every `piece_bytes` bytes."""
        self._piece_bytes = self._notified_bytes = piece_bytes

    def add(self, frame: bytes) -> bool:
        """Append a frame; whether the writer must be notified. The caller holds the lock."""
        self.frames.add(frame)
        self.size += len(frame)
        self.added_count += 1
        waiting_bytes = len(self.frames)
        if self.is_awaited and (not self._piece_bytes or waiting_bytes < self._notified_bytes):
            return False
        self._notified_bytes = waiting_bytes + self._piece_bytes
        self.is_awaited = True
        return True

    def take(self) -> bytes:
        """Return all waiting frames and remove them."""
        self._notified_bytes = self._piece_bytes
        return self.frames.take()

    def forget_subjects(self) -> None:
        self.subjects.clear()
        self.templates.clear()

    if TYPE_CHECKING:
        # Only the compiled build has this. `PublishPath` uses it.
        def put(self, what: object, data: object, subject: object, time_s: float) -> int: ...


class PublishPath:
    """The path of a published object to the waiting frames."""

    def __init__(
        self, waiting: WaitingFrames, first: Callable[..., Any], wake: Any, clock: object
    ) -> None:
        """`first` publishes, `wake` notifies the writer."""
        self._first = first
        self._wake = wake

    def publish(self, what: Any, data: Any = None, *, only: Any = None, subject: Any = "") -> None:
        """Create an object, or update those of its fields that are set or named in `only`.

        Or send bytes under a subject. Raises WouldBlock if too many bytes wait to be sent.
        """
        if self._first(what, data, only, subject):
            self._wake()


# -- receiving


class RouteVersion:
    """Version of the facts that are cached about a type. `shut` invalidates them."""

    def __init__(self) -> None:
        self.number = 1

    def shut(self) -> None:
        """Invalidate everything that was cached before."""
        self.number += 1


class AlikeFrames:
    """Frames with equal headers but for their times; made for known headers only."""

    if TYPE_CHECKING:

        def __init__(self, first: bytes, rest: bytes, second: int) -> None: ...
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
        ) -> tuple[int, int]: ...


class _KnownHeader:
    """A header that was received before; never made here."""

    if TYPE_CHECKING:
        owner: Any

        @property
        def is_open(self) -> bool: ...


class ForwardedHeader(_KnownHeader):
    """How objects with a known header are forwarded."""

    if TYPE_CHECKING:

        def __init__(
            self, owner: Any, parts: _Parts, heads: list[bytes], rests: list[bytes]
        ) -> None: ...
        def open(
            self,
            gate: RouteVersion,
            layout: StructLayout,
            named: int,
            is_message: bool,
            outs: list[Frames],
            kinds: bytes,
        ) -> None: ...
        def frame(self, kind: int, sent_s: float, now_s: float, payload: bytes) -> bytes: ...


class DeliveredHeader(_KnownHeader):
    """The callbacks for objects with a known header."""

    if TYPE_CHECKING:

        def __init__(self, owner: Any, parts: _Parts) -> None: ...
        def open(
            self,
            gate: RouteVersion,
            header: Any,
            shape: Any,
            targets: list[Any] | None,
            objects: dict[bytes, ObjectState] | None,
        ) -> None: ...


class _KnownHeaders:
    """Headers that were received before: none."""

    count = 0
    is_new = False

    if TYPE_CHECKING:
        is_checked: bool
        stop: int

        def payload(self) -> bytes: ...
        def checked(self) -> tuple[bytes, bytes, int, float]: ...
        def parts(self) -> _Parts: ...
        def wants(self) -> bool: ...


class FrameRelay(_KnownHeaders):
    """Forwards the frames of a client that have known headers."""

    def __init__(self, version: int, time_s_max: float) -> None:
        pass

    def pass_on(
        self, buffer: bytes, start: int, bytes_max: int, now_s: float, work_max: int
    ) -> ForwardedHeader | None:
        """Forward no frame."""
        return None

    def take_touched(self) -> list[tuple[Any, int]]:
        """No header forwarded frames."""
        return []

    def forget(self, one: ForwardedHeader | None = None) -> None:
        """There is nothing to forget."""

    if TYPE_CHECKING:
        work: int
        is_spent: bool
        is_run: bool

        def learn(self, one: ForwardedHeader) -> None: ...
        def deliver(self) -> None: ...


class FrameDelivery(_KnownHeaders):
    """Delivers frames with known headers to callbacks."""

    def deliver(
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
        """Deliver no frame."""
        return None

    def end(self) -> None:
        """There is no current frame to release."""

    if TYPE_CHECKING:
        start: int

        def learn(self, one: DeliveredHeader) -> None: ...
        def times(self) -> tuple[float, float | None]: ...


@dataclass(slots=True, eq=False)
class ObjectState:
    """An object after one change, and the origin of the change. Only `epoch` is modified."""

    payload: bytes
    """The whole object."""
    present: int
    """Property set of the payload."""
    subject: str
    """Empty for the default one."""
    created: float
    created_from: int
    modified: float
    modified_from: int
    operation: Operation
    received: float
    epoch: int
    """The connection on which it was last received."""


class ReceivedUpdate:
    """A received change of an object, with the bytes of the update."""

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
        operation: Operation,
        header: Any,
        shape: Any,
        payload: bytes,
        entry: Any,
        own_id: int,
        received: float,
    ) -> None:
        self.operation = operation
        """What the update did. A message is always created."""
        self._known = header
        self._has_times = False
        """Whether the times of the header are kept separately: only in the compiled build."""
        self._sent_time = self._server_sent_time = 0.0
        self._shape = shape
        self._payload = payload
        self._entry = entry
        self._own_id = own_id
        self._received = received
        self._part: Any = None
        self._whole: Any = None
        self.fault: DecodeError | None = None
        """The error of decoding, if the bytes turned out not to be an object of the type."""

    @property
    def update(self) -> Any:
        """The published fields, and the key."""
        if self._part is None:
            self._part = self._decode(self._payload)
        return self._part

    @property
    def object(self) -> Any:
        """The whole object after the update, or before its removal."""
        if self._entry is None or self._entry.payload is self._payload:
            return self.update
        if self._whole is None:
            self._whole = self._decode(self._entry.payload)
        return self._whole

    @property
    def data(self) -> bytes:
        """The bytes published under a subject, or the encoded update of an object."""
        if not self._shape.is_bytes:
            return self._payload
        found: bytes = self._shape.bytes_of(self._payload)
        return found

    def _decode(self, payload: bytes) -> Any:
        try:
            return self._shape.decode(payload)
        except DecodeError as error:
            # Decoding is lazy, so invalid bytes are found only here. The caller of the callback
            # must distinguish them from an error in the callback.
            self.fault = error
            raise
