"""Forwards a run of frames that differ only in their times."""

from __future__ import annotations

from tests.unit.codec.reference.frames import DOUBLE, PREFIX_BYTES, Frames
from tests.unit.codec.reference.layout import StructLayout


class AlikeFrames:
    """Frames of version 2 with equal headers except for one time, or two consecutive ones."""

    def __init__(self, first: bytes, rest: bytes, second: int) -> None:
        """`first` is the header before the first time, `rest` the header after the last.

        `second` is the tag of the second time, or -1.
        """
        self._first = first
        self._rest = rest
        self._middle = b"" if second < 0 else bytes((second, 0xFB))
        self._sent_at = len(first)
        self._rest_at = len(first) + (8 if second < 0 else 18)
        self.size = self._rest_at + len(rest)

    def fits(self, buffer: bytes, at: int, bytes_max: int) -> int:
        """Size of the frame at `at`, if it is complete and has this header; else 0."""
        if len(buffer) - at < PREFIX_BYTES or buffer[at] != 0x1A:
            return 0
        size = int.from_bytes(buffer[at + 1 : at + PREFIX_BYTES], "big")
        at += PREFIX_BYTES
        if size > len(buffer) - at or size < self.size or size > bytes_max:
            return 0
        middle = at + self._sent_at + 8
        if (
            not buffer.startswith(self._first, at)
            or not buffer.startswith(self._middle, middle)
            or not buffer.startswith(self._rest, at + self._rest_at)
        ):
            return 0
        return PREFIX_BYTES + size

    def times(self, buffer: bytes, at: int) -> tuple[float, float]:
        """Both times of a frame that fits; 0 for a missing one."""
        at += PREFIX_BYTES + self._sent_at
        second: float = DOUBLE.unpack_from(buffer, at + 10)[0] if self._middle else 0.0
        return DOUBLE.unpack_from(buffer, at)[0], second

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
        """Forward frames from `start` on, up to one with another header or an unusual object.

        Each is written to `plain`, to `full` or to both, with another header around its first time.
        Returns the offset of the first frame that was not forwarded, and the number of forwarded
        ones.
        """
        at, count = start, 0
        while size := self.fits(buffer, at, bytes_max):
            payload = buffer[at + PREFIX_BYTES + self.size : at + size]
            present = layout.check(payload, 0)
            if present < 0 or present & ~named or layout.key_mask & ~present:
                break
            sent_at = at + PREFIX_BYTES + self._sent_at
            sent = buffer[sent_at : sent_at + 8]
            # In this form the comparison is also false for NaN.
            if not (-time_s_max <= DOUBLE.unpack(sent)[0] <= time_s_max):
                break
            if plain is not None:
                plain._put(plain_head + sent + plain_tail, payload)
            if full is not None:
                full._put(full_head + sent + full_tail, payload)
            at += size
            count += 1
        return at, count
