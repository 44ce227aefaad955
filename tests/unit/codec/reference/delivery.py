"""Delivers frames with known headers to the callbacks of a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skerry.codec import pieces
from skerry.errors import CodecError, DecodeError
from tests.unit.codec.reference.frames import PREFIX_BYTES
from tests.unit.codec.reference.known_headers import (
    KnownHeader,
    KnownHeaders,
    RouteVersion,
    SurveyedFrame,
    survey,
)
from tests.unit.codec.reference.layout import key_of


class ObjectState:
    """An object after one change, and the origin of the change. Only `epoch` is modified."""

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
        """The header of the update. The times may be kept separately."""
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
        """Store an object. In unusual cases nothing is changed and None is returned."""
        assert self._objects is not None
        layout, header = self._shape.layout, self._header
        present = layout.check(update, 0)
        if present < 0 or layout.key_mask & ~present:
            return None
        key = key_of(layout, update)
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
                    # The error is reported when the frame is processed by the caller.
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
        return payload, key_of(layout, payload), layout.check(payload, 0)

    def end(self) -> None:
        """Release the current frame."""
        self._frame = self._call = None

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
        """Call all targets for each frame from `start` on, up to one that it cannot deliver.

        Returns the call of that frame's header; None if the header is unknown or the frame is not
        complete. Events are objects of the class `cls`, derived from ReceivedUpdate. `failed` is
        called with target, event and error when a callback fails.
        """
        self.count, self.start, self.stop = 0, start, start
        self.is_checked = self.is_new = False
        self._frame = self._call = None
        while frame := survey(buffer, start, bytes_max, 2):
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
            self.start, self.stop = start + PREFIX_BYTES, stop
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

    def _stop_at(self, call: DeliveredHeader | None, frame: SurveyedFrame) -> None:
        """Make a frame that cannot be delivered here the current one."""
        self._frame, self._call = frame, call
        self.is_new = call is None
        if call is not None and call.is_open:
            layout = call._shape.layout
            present = layout.check(frame[4], 0)
            self.is_checked = present >= 0 and not layout.key_mask & ~present


def _is_shut(known: KnownHeader) -> bool:
    # A function, because a type checker takes `is_open` to be constant between two reads.
    return not known.is_open
