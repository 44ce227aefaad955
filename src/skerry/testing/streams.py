"""Simulated streams: bytes arrive in order, in pieces of other sizes, or the stream breaks.

A stream has two ends, one at each node. Each end sends its pieces through the same faults as
datagrams. A piece that a fault loses is sent again and delays all later ones, as with TCP. After
too many losses the end closes. So a machine sees delays, pieces of odd sizes, and streams that
close. If the peer crashes during a partition, an end detects that only when it sends: the stream is
half open, a case that every protocol has to handle.

The number of bytes in flight or unread is bounded. Further bytes wait at the sending end. If they
are many, a `Paced` machine is paused, and later resumed. So a slow reader slows down the
sender.

`StreamEnd.is_open` is the state of the kernel: bytes may still arrive. The entry in `Node.streams`
is the state of the machine: it was notified that the stream opened, and not yet that it closed.
They differ while the machine is paused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import adler32

from skerry.limits import SIM_INBOX_COUNT_MAX
from skerry.protocol.machine import (
    Address,
    CloseReason,
    Connect,
    Disconnect,
    Paced,
    StreamMachine,
    Transmit,
)
from skerry.testing.packet import STREAM, Packet
from skerry.testing.stream_end import Input, Piece, Signal, StreamEnd

if TYPE_CHECKING:
    from skerry.testing.network import Network
    from skerry.testing.node import Node
    from skerry.testing.world import World


SIM_STREAM_COUNT_MAX: Final = 1024
"""Streams of one node. Further streams are refused, as without free file descriptors."""
SIM_STREAM_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes in flight in one direction of a stream: six of the largest frames. A machine that ignores
`pause` and keeps writing to an unreachable peer fails here."""

PIECE_BYTES_MAX: Final = 65536
"""The longest piece that a machine receives: what a driver reads from a socket at once."""

GATHER_NS_MAX: Final = 50_000
"""Time that bytes may wait for more before they are sent. Without it no two writes would arrive as
one piece."""

RETRY_NS_FIRST: Final = 200_000_000
RETRY_NS_MAX: Final = 2_000_000_000
_RETRY_COUNT_MAX: Final = 10
"""A piece is sent again after 0.2 s, later every two seconds, and the stream is closed after about
15 s: less than the 15 minutes of TCP, so that it happens in a run."""

CONNECT_NS_MAX: Final = 15_000_000_000
"""Time that a stream may take to open. The accepting node may crash before it answers."""

WINDOW_BYTES: Final = 256 * 1024
"""Bytes in flight and unread in one direction, and as many more that may wait at the sending end
before its machine is paused. Drivers use buffers of this size."""


class Streams:
    def __init__(self, world: World, network: Network) -> None:
        self.refuses: list[Callable[[Node[Any]], bool]] = []
        """Faults that may refuse a stream to a node."""
        self.window_bytes = WINDOW_BYTES
        """The window of each stream. A scenario may lower it to reach the bound soon."""
        self.keep_alive_ns: int | None = None
        """Interval of keep-alive probes of accepting ends; None for none."""
        self._world = world
        self._network = network
        self._rng = world.random("streams")

    def send(self, node: Node[Any], transmit: Transmit) -> None:
        """Execute one stream transmit of the machine of a node."""
        if isinstance(transmit, Connect):
            self._connect(node, transmit.destination)
            return
        end = node.streams.get(transmit.destination)
        if isinstance(transmit, Disconnect):
            # Also if it broke and the machine was not notified yet. It no longer will be.
            node.streams.pop(transmit.destination, None)
        if end is None or not end.is_open:
            # The stream broke while the machine was writing. A real socket would return an error,
            # of which the machine is notified by `stream_closed`.
            self._world.note("unsent", node, to=str(transmit.destination))
            return
        if isinstance(transmit, Disconnect) and transmit.is_abrupt:
            end.shut()
            self._send_reset(end, end.far)
            return
        if transmit.data:
            end.push(transmit.data)
            self._check_outgoing(end)
        if isinstance(transmit, Disconnect):
            end.push(Signal.ENDED)
        self._pump_soon(end)

    def open_ends(self) -> list[StreamEnd]:
        """One end of each established stream, ordered by node and time of opening."""
        return [
            end
            for node in self._world.nodes.values()
            for end in node.streams.values()
            if end.is_open and end.is_established and end.peer.host <= node.name
        ]

    def lose(self, end: StreamEnd, *, told_ns: int, far_told_ns: int) -> None:
        """Break a stream. Bytes in flight are lost. Each side is notified after its own delay."""
        far = end.far
        self._world.after(told_ns, self._report_lost, end)
        end.shut()
        if far is not None and far.is_open:
            self._world.after(far_told_ns, self._report_lost, far)
            far.shut()

    def read_slowly(self, end: StreamEnd, *, pause_ns: int, bytes_per_s: int | None = None) -> None:
        """Make the machine at this end pause reading, and then read at a limited rate."""
        assert pause_ns >= 0
        assert bytes_per_s is None or bytes_per_s > 0
        end.read_due_ns = max(end.read_due_ns, self._world.now_ns + pause_ns)
        end.read_bytes_per_s = bytes_per_s
        self._world.note("read-slowly", end.node, peer=str(end.peer), pause_ns=pause_ns)

    def read_on(self, end: StreamEnd) -> None:
        """End the effect of `read_slowly`."""
        end.read_due_ns = 0
        end.read_bytes_per_s = None
        if end.unread:
            self._world.after(0, self._read, end)

    def reset_all(self, node: Node[Any]) -> None:
        """Reset all streams of a node whose machine crashed, as its kernel would."""
        ends = list(node.streams.values())
        node.streams.clear()
        for end in ends:
            if end.is_open:
                end.shut()
                self._send_reset(end, end.far)

    # -- opening

    def _connect(self, node: Node[Any], destination: Address) -> None:
        if destination in node.streams:
            raise self._world.failure(
                "network", f"{node.name} connects to {destination}, but has a stream to it"
            )
        if not isinstance(node.machine, StreamMachine):
            raise self._world.failure(
                "network", f"{node.name} connects, but is not a StreamMachine"
            )
        end = StreamEnd(node, destination)
        has_room = len(node.streams) < SIM_STREAM_COUNT_MAX
        node.streams[destination] = end
        if not has_room:
            # The machine is notified at once. No other node learns of the stream.
            self._world.note("refuse", node, by=node.name)
            self._world.after(0, self._report_refused, end)
            return
        end.push(Signal.CONNECT)
        self._pump_soon(end)
        self._world.after(CONNECT_NS_MAX, self._check_established, end)

    def _connect_arrived(self, caller: StreamEnd) -> None:
        node = self._target(caller)
        if node is None or not self._accepts(node):
            self._world.note("refuse", caller.node, by=caller.peer.host)
            self._world.after(self._network.latency_ns, self._report_refused, caller)
            return
        near_port = caller.node.port_next
        caller.node.port_next += 1
        end = StreamEnd(node, Address(caller.node.name, near_port, is_stream=True))
        end.far, caller.far = caller, end
        end.is_established = True
        node.streams[end.peer] = end
        self._world.note("accept", node, peer=str(end.peer))
        # Before the machine is notified, which may send data.
        end.push(Signal.OPENED)
        self._pump_soon(end)
        self._keep_alive_later(end)
        self._deliver(end, Signal.OPENED)

    def _check_established(self, caller: StreamEnd) -> None:
        if caller.is_open and not caller.is_established:
            self._give_up(caller)

    def _target(self, end: StreamEnd) -> Node[Any] | None:
        node = self._world.nodes.get(end.peer.host)
        if node is None or node.address.port != end.peer.port:
            return None
        return node

    def _accepts(self, node: Node[Any]) -> bool:
        return (
            node.is_up
            and node.listens
            and isinstance(node.machine, StreamMachine)
            and len(node.streams) < SIM_STREAM_COUNT_MAX
            and not any(refuse(node) for refuse in self.refuses)
        )

    # -- sending

    def _pump_soon(self, end: StreamEnd) -> None:
        if not end.is_pumping:
            self._pump_after(end, int(self._rng.random() * GATHER_NS_MAX))

    def _pump_after(self, end: StreamEnd, delay_ns: int) -> None:
        end.is_pumping = True
        self._world.after(delay_ns, self._pump, end)

    def _pump(self, end: StreamEnd) -> None:
        end.is_pumping = False
        while end.is_open and end.outgoing:
            if end.far is not None and len(end.far.node.inbox) >= SIM_INBOX_COUNT_MAX:
                # The far machine is paused and its inbox is full, so the bytes wait here.
                self._pump_after(end, RETRY_NS_FIRST)
                return
            room = self.window_bytes - end.in_flight_bytes
            if room <= 0 and isinstance(end.outgoing[0], bytes):
                # It continues when the far machine reads, which it may never do.
                self._probe_later(end)
                return
            piece = end.cut(min(room, PIECE_BYTES_MAX), self._rng)
            delays_ns = self._plan(end, piece)
            if not delays_ns:
                self._retry_later(end, piece)
                return
            end.try_count = 0
            # Copies hold the same bytes of the stream, so only the first arrival counts.
            end.arrival_ns = max(end.arrival_ns, self._world.now_ns + min(delays_ns))
            self._world.after(end.arrival_ns - self._world.now_ns, self._arrive, (end, piece))
            if isinstance(piece, bytes):
                end.in_flight_bytes += len(piece)
                self._note_room(end)
            elif piece is Signal.ENDED:
                # All pieces are in flight and cannot be lost, so this end is done.
                end.is_open = False

    def _probe_later(self, end: StreamEnd) -> None:
        if not end.is_probing:
            end.is_probing = True
            self._world.after(RETRY_NS_MAX, self._probe, end)

    def _probe(self, end: StreamEnd) -> None:
        """Probe a far end that does not read, as TCP does."""
        end.is_probing = False
        if not end.is_open or end.in_flight_bytes < self.window_bytes:
            return
        assert end.far is not None
        if not self._plan(end, b""):
            end.try_count += 1
            if end.try_count > _RETRY_COUNT_MAX:
                self._give_up(end)
                return
        elif end.far.is_open:
            end.try_count = 0
        else:
            self._send_reset(end.far, end)
        self._probe_later(end)

    def _keep_alive_later(self, end: StreamEnd) -> None:
        if self.keep_alive_ns is not None:
            self._world.after(self.keep_alive_ns, self._keep_alive, end)

    def _keep_alive(self, end: StreamEnd) -> None:
        """Probe the far end of an idle stream, as TCP does."""
        if not end.is_open:
            return
        assert end.far is not None
        if self._plan(end, b"") and not end.far.is_open:
            self._send_reset(end.far, end)
        self._keep_alive_later(end)

    def _plan(self, end: StreamEnd, piece: Piece) -> list[int]:
        target = end.far.node if end.far is not None else self._target(end)
        if target is None or target is end.node:
            return [self._network.latency_ns]
        data = piece if isinstance(piece, bytes) else b""
        packet = Packet(end.node, target, data, adler32(data), STREAM, self._world.now_ns)
        return self._network.plan(packet)

    def _retry_later(self, end: StreamEnd, piece: Piece) -> None:
        end.try_count += 1
        if end.try_count > _RETRY_COUNT_MAX:
            self._give_up(end)
            return
        end.outgoing.appendleft(piece)
        if isinstance(piece, bytes):
            end.outgoing_bytes += len(piece)
        self._pump_after(end, min(RETRY_NS_FIRST << (end.try_count - 1), RETRY_NS_MAX))

    def _give_up(self, end: StreamEnd) -> None:
        # The far end is not notified, because nothing reaches it. The stream is half open.
        end.shut()
        if end.is_established:
            self._report_lost(end)
        else:
            self._deliver_close(end, CloseReason.TIMED_OUT)

    def _check_outgoing(self, end: StreamEnd) -> None:
        if end.outgoing_bytes > SIM_STREAM_BYTES_MAX:
            raise self._world.failure(
                "network",
                f"{end.node.name} has {end.outgoing_bytes} bytes waiting for {end.peer},"
                f" the limit is {SIM_STREAM_BYTES_MAX}",
            )
        if end.outgoing_bytes > self.window_bytes and not end.is_full:
            end.is_full = True
            self._world.note("full", end.node, peer=str(end.peer))
            if isinstance(end.node.machine, Paced):
                end.node.machine.pause(end.peer)

    def _note_room(self, end: StreamEnd) -> None:
        # The two thresholds differ, so that a machine is not notified for every piece.
        if end.is_full and end.outgoing_bytes <= self.window_bytes // 4:
            end.is_full = False
            self._world.note("room", end.node, peer=str(end.peer))
            self._world.after(0, self._queue_resume, end)

    def _queue_resume(self, end: StreamEnd) -> None:
        self._input(end, self._resume_machine, end)

    # -- arriving

    def _arrive(self, sent: tuple[StreamEnd, Piece]) -> None:
        sender, piece = sent
        if piece is Signal.CONNECT:
            if sender.is_open:
                self._connect_arrived(sender)
            return
        end = sender.far
        if end is None:
            return  # Sent before the stream opened, which was refused or timed out.
        if not end.is_open:
            if sender.is_open:
                self._send_reset(end, sender)
            return
        self._note_piece(end, piece)
        if piece is Signal.OPENED:
            end.is_established = True
        if piece is Signal.ENDED:
            end.shut()
            self._deliver_close(end, CloseReason.ENDED)
        else:
            self._deliver(end, piece)

    def _send_reset(self, end: StreamEnd, far: StreamEnd | None) -> None:
        """Send one reset to the far end. It may be lost."""
        if far is None or not far.is_open:
            return
        packet = Packet(end.node, far.node, b"", 0, STREAM, self._world.now_ns)
        for delay_ns in self._network.plan(packet)[:1]:
            self._world.after(delay_ns, self._reset_arrived, far)

    def _reset_arrived(self, end: StreamEnd) -> None:
        if end.is_open:
            end.shut()
            self._report_lost(end)

    def _report_lost(self, end: StreamEnd) -> None:
        self._deliver_close(end, CloseReason.LOST)

    def _report_refused(self, end: StreamEnd) -> None:
        if end.is_open:
            end.shut()
            self._deliver_close(end, CloseReason.REFUSED)

    # -- input of the machine

    def _deliver(self, end: StreamEnd, piece: Piece) -> None:
        self._queue_input(end, (self._hand_over, (end, piece)))

    def _deliver_close(self, end: StreamEnd, reason: CloseReason) -> None:
        if reason is CloseReason.LOST:
            # Unread bytes are lost when a stream breaks.
            end.unread.clear()
        self._queue_input(end, (self._close_machine, (end, reason)))

    def _queue_input(self, end: StreamEnd, what: Input) -> None:
        """Deliver an input after all unread ones."""
        is_slow = bool(end.unread) or self._world.now_ns < end.read_due_ns
        if not is_slow or not self._is_known(end):
            self._input(end, *what)
            return
        end.unread.append(what)
        if len(end.unread) == 1:
            self._world.after(end.read_due_ns - self._world.now_ns, self._read, end)

    def _read(self, end: StreamEnd) -> None:
        while end.unread:
            if self._world.now_ns < end.read_due_ns:
                self._world.after(end.read_due_ns - self._world.now_ns, self._read, end)
                return
            self._input(end, *end.unread.popleft())

    def _input(self, end: StreamEnd, hand_over: Callable[[Any], None], what: Any) -> None:
        node = end.node
        if not self._is_known(end):
            self._discard_input(end, what)
            return
        if node.is_paused:
            node.inbox.append((hand_over, what))
        else:
            hand_over(what)

    def _is_known(self, end: StreamEnd) -> bool:
        """Whether the machine still knows this end."""
        return end.node.streams.get(end.peer) is end

    def _hand_over(self, what: tuple[StreamEnd, Piece]) -> None:
        end, piece = what
        if not self._is_known(end):
            self._discard_input(end, what)
            return
        machine = _stream_machine(end.node)
        now_ns = end.node.now_ns
        self._world.input_count += 1
        if isinstance(piece, bytes):
            self._note_read(end, len(piece))
            machine.receive(piece, end.peer, now_ns)
        else:
            machine.stream_opened(end.peer, now_ns)
        self._world.collect(end.node)

    def _resume_machine(self, end: StreamEnd) -> None:
        machine = end.node.machine
        # If the buffer is full again, the machine is notified when it has space once more.
        if not self._is_known(end) or end.is_full or not isinstance(machine, Paced):
            return
        self._world.input_count += 1
        machine.resume(end.peer, end.node.now_ns)
        self._world.collect(end.node)

    def _discard_input(self, end: StreamEnd, what: Any) -> None:
        """Free the window of a piece for a machine that does not use the stream any more."""
        if isinstance(what, tuple) and isinstance(what[1], bytes):
            self._note_read(end, len(what[1]))

    def _note_read(self, end: StreamEnd, size: int) -> None:
        if end.read_bytes_per_s is not None:
            size_ns = size * 1_000_000_000 // end.read_bytes_per_s
            end.read_due_ns = max(end.read_due_ns, self._world.now_ns) + size_ns
        sender = end.far
        assert sender is not None
        sender.in_flight_bytes -= size
        if sender.is_open and sender.outgoing:
            self._pump_soon(sender)

    def _close_machine(self, what: tuple[StreamEnd, CloseReason]) -> None:
        end, reason = what
        if not self._is_known(end):
            return
        del end.node.streams[end.peer]
        self._world.note("closed", end.node, peer=str(end.peer), reason=reason.value)
        self._world.input_count += 1
        _stream_machine(end.node).stream_closed(end.peer, reason, end.node.now_ns)
        self._world.collect(end.node)

    def _note_piece(self, end: StreamEnd, piece: Piece) -> None:
        data = piece if isinstance(piece, bytes) else b""
        what = "piece" if isinstance(piece, bytes) else piece.value
        self._world.note(
            what, end.node, bytes=len(data), checksum=adler32(data), peer=str(end.peer)
        )


def _stream_machine(node: Node[Any]) -> StreamMachine:
    # Checked once when the stream opened, because a check of a protocol is slow.
    return cast("StreamMachine", node.machine)
