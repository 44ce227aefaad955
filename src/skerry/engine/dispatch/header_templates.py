"""Header templates: what a node remembers about a header that it has received before.

Forwarded objects with the same header differ only in the two times, so the rest of the forwarded
header is written once. The module is compiled with the dispatcher.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_f64_be
from mypy_extensions import i64, u8

from skerry.codec.frame import PREFIX_BYTES, FrameCutter
from skerry.codec.hot_loops import AlikeFrames, ForwardedHeader, Frames
from skerry.codec.plans import StructPlan
from skerry.engine.dispatch.client_queue import TIME_S_MAX, ClientQueue
from skerry.engine.dispatch.source import Source
from skerry.engine.dispatch.topics import Route, Topic
from skerry.protocol.access.header import SERVER_SENT_TIME, Header, copy_header, write_header
from skerry.protocol.access.wire import OldWire

_TIMES_BYTES: Final = 18
"""Size of both times, with the bytes between them."""
_OLD: Final = OldWire()


class HeaderTemplate:
    """A header that a client sent, and the header with which its objects are forwarded."""

    def __init__(
        self, header: Header, parts: tuple[bytes, bytes, bool], topic: Topic, source: Source
    ) -> None:
        """`parts` are the parts of the header as the client's relay returns them."""
        self.topic: Topic = topic
        self.plan: StructPlan = topic.plan
        """The definition of the type for which the template is valid."""
        self.named: i64 = header.attributes | topic.plan.key_mask
        self.subject: str = header.subject if source.has_subjects else ""
        self.route: Route | None = None
        """None if the route depends on the object."""
        out = Header(header.type_name)
        out.sent_time = 0.0
        out.server_sent_time = 0.0
        out.attributes = header.attributes
        out.sender = source.client_id
        out.remove_obj = header.remove_obj
        out.is_from_myself = 0
        self.header: Header = out
        """The header of the forwarded object, without its times."""
        plain = write_header(out)
        # Without the size prefix, and without the size of the (empty) object at the end.
        old = _OLD.frame(out, b"")[2:-2]
        named = copy_header(out)
        named.subject = self.subject
        full = write_header(named)
        at = _time_at(header.type_name)
        old_at = len(old) - len(plain) + at
        self._heads: list[bytes] = [plain[:at], full[:at]]
        self._rests: list[bytes] = [plain[at + _TIMES_BYTES :], full[at + _TIMES_BYTES :]]
        self.form: ForwardedHeader = ForwardedHeader(
            self,
            parts,
            [*self._heads, old[:old_at]],
            [*self._rests, old[old_at + _TIMES_BYTES :]],
        )
        self._bytes_max: int = int(source.update_bytes_max)
        """Frames up to this size are within every limit."""
        self._alike: AlikeFrames = AlikeFrames(
            parts[0], parts[1], SERVER_SENT_TIME if parts[2] else -1
        )

    def open(self, route: Route | None) -> None:
        """Set the subscribers of the objects, until the gate of the topic is shut.

        Without a route, the subscribers depend on the object.
        """
        topic = self.topic
        self.route = route
        queues = [] if route is None else route.queues
        is_message = route is not None and not topic.is_cached and not route.listeners
        self.form.open(
            topic.gate,
            topic.layout,
            int(self.named),
            is_message,
            [queue.frames for queue in queues],
            bytes([kind_of(queue) for queue in queues]),
        )

    def forward(
        self, cutter: FrameCutter, now_s: float, plain: Frames | None, full: Frames | None
    ) -> i64:
        """Write the frames of consecutive objects: to `plain` without a subject, to `full` with it.

        Begins with the frame at the cutter and stops at a frame that has to be decoded. Returns the
        number of frames; the cutter is behind the last of them.
        """
        middle = BytesWriter()
        middle.append(u8(SERVER_SENT_TIME))
        middle.append(u8(0xFB))
        write_f64_be(middle, now_s)
        time = middle.getvalue()
        stop, count = self._alike.forward(
            cutter.buffer,
            int(cutter.start) - PREFIX_BYTES,
            self._bytes_max,
            self.topic.layout,
            int(self.named),
            TIME_S_MAX,
            plain,
            self._heads[0],
            time + self._rests[0],
            full,
            self._heads[1],
            time + self._rests[1],
        )
        if count > 0:
            cutter.skip(int(cutter.start), stop, count - 1)
        return count


def kind_of(queue: ClientQueue) -> int:
    """The form of the header for a client, as an index into the forms of `codec.hot_loops`."""
    if queue.is_old:
        return 2
    return 1 if queue.has_subjects else 0


def _time_at(type_name: str) -> int:
    """The offset of the first time in a header."""
    name = len(type_name.encode("utf-8", "surrogateescape"))
    # The count of entries and a tag, the head of the name, and again a tag and a head.
    return 2 + (1 if name < 24 else 2 if name < 256 else 3) + name + 2
