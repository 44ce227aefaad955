"""Forwards frames with known headers to the clients of a node."""

from __future__ import annotations

from typing import Any, Final

from skerry.codec import encoder
from tests.unit.codec.reference.frames import DOUBLE, Frames
from tests.unit.codec.reference.known_headers import (
    KnownHeader,
    KnownHeaders,
    Parts,
    RouteVersion,
    survey,
)
from tests.unit.codec.reference.layout import StructLayout, key_of

_FORM_COUNT: Final = 3
_OLD_FORM: Final = 2


class ForwardedHeader(KnownHeader):
    """How objects with a known header are forwarded: in up to three forms.

    The forms are: without a subject, with the subject, and for programs of version 1.
    """

    def __init__(self, owner: Any, parts: Parts, heads: list[bytes], rests: list[bytes]) -> None:
        """Each head ends before the first time of the header, each rest begins after the
        second."""
        if len(heads) != _FORM_COUNT or len(rests) != _FORM_COUNT:
            raise ValueError("a header has three forms")
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
            raise ValueError("each output needs one form")
        self._gate, self._number = gate, gate.number
        self._layout, self._named = layout, named
        self._is_message = is_message
        self._outs, self._kinds = outs, kinds

    def frame(self, kind: int, sent_s: float, now_s: float, payload: bytes) -> bytes:
        """One frame with an object, in the form `kind`."""
        if not 0 <= kind < _FORM_COUNT:
            raise ValueError("there is no such form")
        header = self._heads[kind] + DOUBLE.pack(sent_s) + b"\x07\xfb" + DOUBLE.pack(now_s)
        header += self._rests[kind]
        if kind != _OLD_FORM:
            size = len(header) + len(payload)
            return b"\x1a" + size.to_bytes(4, "big") + header + payload
        header += b"\x04" + encoder.head(0x00, len(payload))
        if len(header) > 0xFFFF:
            raise ValueError("the header is too long")
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
        while frame := survey(buffer, self.stop, bytes_max, self._version):
            self._frame = frame
            parts, sent_s, _, _, payload, stop = frame
            form: ForwardedHeader | None = self._all.get(parts)
            self._form = form
            if form is None:
                self.is_new = True
                return None
            if not form.is_open or not form.is_in_order(payload):
                return form
            # In this form the comparison is also false for NaN.
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
        return payload, key_of(layout, payload), layout.check(payload, 0), self._look()[1]

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
