"""What to do with objects that come with a header that came before, and how to pass them on.

Of the header that goes out only the two times differ from one object to the next, so it is made
once. Compiled with the hub.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_f64_be, write_i32_be
from mypy_extensions import i32, i64, u8

from skerry.codec.frame import PREFIX_BYTES, FrameCutter
from skerry.codec.swift import Frames, Layout
from skerry.engine.lane import Lane
from skerry.engine.topics import Route, Topic
from skerry.protocol.access.header import NEVER, SERVER_SENT_TIME, Header, write_header
from skerry.protocol.access.repeats import Repeat

__all__ = ["TIME_S_MAX", "Stencil"]

TIME_S_MAX: Final = 9_000_000_000.0
"""The nanoseconds of times much further from 1970 do not fit into 64 bits."""


class Stencil:
    """One header of a client, and all that follows from it."""

    def __init__(self, repeat: Repeat, topic: Topic, lane: Lane) -> None:
        self.repeat: Repeat = repeat
        self.topic: Topic = topic
        header = repeat.header
        self.named: i64 = header.attributes | topic.plan.key_mask
        self.subject: str = header.subject if lane.has_subjects else ""
        self.route: Route | None = None
        self.generation: i64 = 0
        out = Header(header.type_name)
        out.sent_time = 0.0
        out.server_sent_time = 0.0
        out.attributes = header.attributes
        out.sender = lane.client_id
        out.remove_obj = header.remove_obj
        out.is_from_myself = 0
        at = int(repeat.sent_at)
        plain = write_header(out)
        out.subject = self.subject
        full = write_header(out)
        self._heads: list[bytes] = [plain[:at], full[:at]]
        self._rests: list[bytes] = [plain[at + 18 :], full[at + 18 :]]
        self._tails: list[bytes] = [b"", b""]
        self._tails_s: float = NEVER
        """For which time the tails, the second time and all behind it, are made."""
        self._layout: Layout = topic.layout
        self._bytes_max: int = int(lane.update_bytes_max)
        """Frames up to this size are surely not above any limit."""

    def forward(
        self, cutter: FrameCutter, now_s: float, plain: Frames | None, full: Frames | None
    ) -> i64:
        """Write the frames of objects from that on at which the cutter is: to `plain` without a
        subject, to `full` with it.

        Gives how many there were up to one that needs more; the cutter is behind the last of them.
        """
        self._set_time(now_s)
        stop, count = self.repeat.alike.forward(
            cutter.buffer,
            int(cutter.start) - PREFIX_BYTES,
            self._bytes_max,
            self._layout,
            int(self.named),
            TIME_S_MAX,
            plain,
            self._heads[0],
            self._tails[0],
            full,
            self._heads[1],
            self._tails[1],
        )
        if count > 0:
            cutter.skip(int(cutter.start), stop, count - 1)
        return count

    def frame(self, sent_s: float, now_s: float, payload: bytes, has_subject: bool) -> bytes:
        """The frame of one object."""
        self._set_time(now_s)
        head = self._heads[1] if has_subject else self._heads[0]
        tail = self._tails[1] if has_subject else self._tails[0]
        size: i64 = len(head) + 8 + len(tail) + len(payload)
        writer = BytesWriter()
        writer.append(u8(0x1A))
        write_i32_be(writer, i32(size))
        writer.write(head)
        write_f64_be(writer, sent_s)
        writer.write(tail)
        writer.write(payload)
        return writer.getvalue()

    def _set_time(self, now_s: float) -> None:
        if self._tails_s != now_s:
            middle = BytesWriter()
            middle.append(u8(SERVER_SENT_TIME))
            middle.append(u8(0xFB))
            write_f64_be(middle, now_s)
            time = middle.getvalue()
            self._tails = [time + self._rests[0], time + self._rests[1]]
            self._tails_s = now_s
