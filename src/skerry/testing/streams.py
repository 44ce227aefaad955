"""Simulated streams: what goes in comes out in order, cut into other pieces, or the stream breaks.

A stream is two ends, one at each node. Each end sends its pieces through the same faults as
datagrams. A piece that a fault stops is sent again and holds up all behind it, as TCP does; when
it was stopped too often the end gives up. What a machine sees is therefore: delay, odd pieces, and
streams that close. An end whose peer vanished while the network was cut notices only when it
sends: a half-open stream, which no protocol may count on not to happen.

Only so many bytes are under way or unread at a time. What does not fit waits where it was sent, and
a machine that is `Paced` is told to pause when that becomes much, and to resume when it is out. So
a reader that is slow, or does not read for a while, is felt by whoever writes to it.

Two views of an end are kept apart. `is_open` is the kernel's: may bytes still arrive? The entry in
`Node.streams` is the machine's: has it been told of the opening and not yet of the closing? They
differ while the machine is paused.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

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

if TYPE_CHECKING:
    from skerry.testing.network import Network
    from skerry.testing.node import Node
    from skerry.testing.world import World

__all__ = [
    "CONNECT_NS_MAX",
    "GATHER_NS_MAX",
    "PIECE_BYTES_MAX",
    "RETRY_NS_FIRST",
    "RETRY_NS_MAX",
    "SIM_STREAM_BYTES_MAX",
    "SIM_STREAM_COUNT_MAX",
    "WINDOW_BYTES",
    "StreamEnd",
    "Streams",
]

SIM_STREAM_COUNT_MAX: Final = 1024
"""Streams of one node. Further streams are refused, as without free file descriptors."""
SIM_STREAM_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes in flight in one direction of a stream: six of the largest frames. A machine that ignores
`pause` and keeps writing to an unreachable peer fails here."""

PIECE_BYTES_MAX: Final = 65536
"""The longest piece a machine is given at a time: what a driver reads from a socket in one go."""

GATHER_NS_MAX: Final = 50_000
"""How long bytes may wait for more before they are sent. Without it no two writes would ever
arrive as one piece."""

RETRY_NS_FIRST: Final = 200_000_000
RETRY_NS_MAX: Final = 2_000_000_000
_RETRY_COUNT_MAX: Final = 10
"""A piece is sent again after a fifth of a second, later every two seconds, and given up after
some fifteen: shorter than TCP's quarter of an hour, so that a run sees it happen."""

CONNECT_NS_MAX: Final = 15_000_000_000
"""How long a stream may take to open. The one who accepts may die before its answer is out."""

WINDOW_BYTES: Final = 256 * 1024
"""Bytes under way and unread in one direction, and as many again that may wait where they were sent
before their machine is told to pause: buffers of the size that drivers use."""


class _Signal(enum.Enum):
    """What travels in line with the bytes."""

    KNOCK = "knock"
    OPENED = "opened"
    ENDED = "ended"


_Piece = bytes | _Signal
_Input = tuple[Callable[[Any], None], Any]
"""What is handed over to a machine: by which way, and what."""


class StreamEnd:
    """One end of a stream, and the direction that leads away from it."""

    __slots__ = (
        "arrival_ns",
        "far",
        "is_established",
        "is_full",
        "is_open",
        "is_probing",
        "is_pumping",
        "node",
        "outgoing",
        "outgoing_bytes",
        "peer",
        "read_bytes_per_s",
        "read_due_ns",
        "try_count",
        "under_way_bytes",
        "unread",
    )

    def __init__(self, node: Node[Any], peer: Address) -> None:
        self.node = node
        self.peer = peer
        """The far end, as this machine names it."""
        self.far: StreamEnd | None = None
        """Missing while nobody has accepted."""
        self.is_open = True
        self.is_established = False
        self.is_probing = False
        self.is_pumping = False
        self.outgoing: deque[_Piece] = deque()
        self.outgoing_bytes = 0
        self.under_way_bytes = 0
        """Sent and not read by the far machine: what counts against the window."""
        self.is_full = False
        """Whether the machine was told to pause, or would have been if it were one that does."""
        self.arrival_ns = 0
        """When the last piece sent arrives; later ones must not overtake it."""
        self.try_count = 0
        self.unread: deque[_Input] = deque()
        """What arrived here and is not read yet, by a machine that reads slowly."""
        self.read_due_ns = 0
        """When the machine reads again."""
        self.read_bytes_per_s: int | None = None
        """How fast it reads; None as fast as it comes."""

    def push(self, piece: _Piece) -> None:
        """Put a piece at the end of the line."""
        self.outgoing.append(piece)
        if isinstance(piece, bytes):
            self.outgoing_bytes += len(piece)

    def shut(self) -> None:
        """Neither send nor receive from now on."""
        self.is_open = False
        self.outgoing.clear()
        self.outgoing_bytes = 0


class Streams:
    """All streams of a world."""

    def __init__(self, world: World, network: Network) -> None:
        self.refuses: list[Callable[[Node[Any]], bool]] = []
        """Faults that may turn away a stream to the given node."""
        self.window_bytes = WINDOW_BYTES
        """Lower it where a run is to reach it soon."""
        self.keep_alive_ns: int | None = None
        """How often an end that was opened to asks whether the far one is there; None for never."""
        self._world = world
        self._network = network
        self._rng = world.random("streams")

    def send(self, node: Node[Any], transmit: Transmit) -> None:
        """Carry out one stream transmit of the node's machine."""
        if isinstance(transmit, Connect):
            self._connect(node, transmit.destination)
            return
        end = node.streams.get(transmit.destination)
        if isinstance(transmit, Disconnect):
            # Also when it broke already and the machine has not heard of it: it never will.
            node.streams.pop(transmit.destination, None)
        if end is None or not end.is_open:
            # The stream broke while the machine was writing: what a real socket answers to with
            # an error that the machine hears of as `stream_closed`.
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
            end.push(_Signal.ENDED)
        self._pump_soon(end)

    def open_ends(self) -> list[StreamEnd]:
        """One end of each established stream, in the order of nodes and opening."""
        return [
            end
            for node in self._world.nodes.values()
            for end in node.streams.values()
            if end.is_open and end.is_established and end.peer.host <= node.name
        ]

    def lose(self, end: StreamEnd, *, told_ns: int, far_told_ns: int) -> None:
        """Break a stream. What is under way is gone; each side is told after its own delay."""
        far = end.far
        self._world.after(told_ns, self._report_lost, end)
        end.shut()
        if far is not None and far.is_open:
            self._world.after(far_told_ns, self._report_lost, far)
            far.shut()

    def read_slowly(self, end: StreamEnd, *, pause_ns: int, bytes_per_s: int | None = None) -> None:
        """Let the machine at this end read nothing for a while, and so much from then on."""
        assert pause_ns >= 0
        assert bytes_per_s is None or bytes_per_s > 0
        end.read_due_ns = max(end.read_due_ns, self._world.now_ns + pause_ns)
        end.read_bytes_per_s = bytes_per_s
        self._world.note("read-slowly", end.node, peer=str(end.peer), pause_ns=pause_ns)

    def read_on(self, end: StreamEnd) -> None:
        """Let the machine at this end read as fast as it can again."""
        end.read_due_ns = 0
        end.read_bytes_per_s = None
        if end.unread:
            self._world.after(0, self._read, end)

    def reset_all(self, node: Node[Any]) -> None:
        """The node's machine died: its kernel resets what it had open, as far as it can."""
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
                "network", f"{node.name} connects to {destination}, to which it has a stream"
            )
        if not isinstance(node.machine, StreamMachine):
            raise self._world.failure("network", f"{node.name} connects, but is no StreamMachine")
        end = StreamEnd(node, destination)
        has_room = len(node.streams) < SIM_STREAM_COUNT_MAX
        node.streams[destination] = end
        if not has_room:
            # The machine knows of it until it is told, at once, and nobody else ever does.
            self._world.note("refuse", node, by=node.name)
            self._world.after(0, self._report_refused, end)
            return
        end.push(_Signal.KNOCK)
        self._pump_soon(end)
        self._world.after(CONNECT_NS_MAX, self._check_established, end)

    def _knocked(self, caller: StreamEnd) -> None:
        """A request for a stream has arrived where `caller` sent it."""
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
        # Before the machine hears of it, which may have something to say first.
        end.push(_Signal.OPENED)
        self._pump_soon(end)
        self._keep_alive_later(end)
        self._deliver(end, _Signal.OPENED)

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
                # The far machine is paused and its window full: the bytes wait here instead.
                self._pump_after(end, RETRY_NS_FIRST)
                return
            room = self.window_bytes - end.under_way_bytes
            if room <= 0 and isinstance(end.outgoing[0], bytes):
                # It goes on when the far machine reads, which it may never do.
                self._probe_later(end)
                return
            piece = self._cut(end, min(room, PIECE_BYTES_MAX))
            delays_ns = self._plan(end, piece)
            if not delays_ns:
                self._retry_later(end, piece)
                return
            end.try_count = 0
            # Copies are the same bytes at the same place, so only the first arrival counts.
            end.arrival_ns = max(end.arrival_ns, self._world.now_ns + min(delays_ns))
            self._world.after(end.arrival_ns - self._world.now_ns, self._arrive, (end, piece))
            if isinstance(piece, bytes):
                end.under_way_bytes += len(piece)
                self._note_room(end)
            elif piece is _Signal.ENDED:
                # All pieces are on their way and nothing can stop them now: our side is done.
                end.is_open = False

    def _probe_later(self, end: StreamEnd) -> None:
        if not end.is_probing:
            end.is_probing = True
            self._world.after(RETRY_NS_MAX, self._probe, end)

    def _probe(self, end: StreamEnd) -> None:
        """Ask a far end that does not read whether it is still there, as TCP does."""
        end.is_probing = False
        if not end.is_open or end.under_way_bytes < self.window_bytes:
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
        """Ask a far end that may have vanished unheard, as TCP does of a stream that is idle."""
        if not end.is_open:
            return
        assert end.far is not None
        if self._plan(end, b"") and not end.far.is_open:
            self._send_reset(end.far, end)
        self._keep_alive_later(end)

    def _plan(self, end: StreamEnd, piece: _Piece) -> list[int]:
        target = end.far.node if end.far is not None else self._target(end)
        if target is None or target is end.node:
            return [self._network.latency_ns]
        data = piece if isinstance(piece, bytes) else b""
        packet = Packet(end.node, target, data, crc32(data), STREAM, self._world.now_ns)
        return self._network.plan(packet)

    def _cut(self, end: StreamEnd, size_max: int) -> _Piece:
        """The next piece: a signal, or some of the bytes, whatever writes they came from."""
        first = end.outgoing.popleft()
        if not isinstance(first, bytes):
            return first
        run = [first]
        run_bytes = len(first)
        while run_bytes < size_max and end.outgoing:
            following = end.outgoing[0]
            if not isinstance(following, bytes):
                break
            end.outgoing.popleft()
            run.append(following)
            run_bytes += len(following)
        data = b"".join(run)
        size = self._piece_bytes(min(len(data), size_max))
        if size < len(data):
            end.outgoing.appendleft(data[size:])
        end.outgoing_bytes -= size
        return data[:size]

    def _piece_bytes(self, size_max: int) -> int:
        # Half of the pieces are as long as they can be, so that runs stay short; the others show
        # a decoder headers cut in two (a few bytes) and frames cut anywhere (any number).
        chance = self._rng.random()
        if chance < 0.5:
            return size_max
        if chance < 0.75:
            return 1 + int(self._rng.random() * min(size_max, 16))
        return 1 + int(self._rng.random() * size_max)

    def _retry_later(self, end: StreamEnd, piece: _Piece) -> None:
        end.try_count += 1
        if end.try_count > _RETRY_COUNT_MAX:
            self._give_up(end)
            return
        end.outgoing.appendleft(piece)
        if isinstance(piece, bytes):
            end.outgoing_bytes += len(piece)
        self._pump_after(end, min(RETRY_NS_FIRST << (end.try_count - 1), RETRY_NS_MAX))

    def _give_up(self, end: StreamEnd) -> None:
        # The far end is not told: nothing reaches it. That is how half-open streams come about.
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
        # The two marks are apart, so that a machine is not told for every piece.
        if end.is_full and end.outgoing_bytes <= self.window_bytes // 4:
            end.is_full = False
            self._world.note("room", end.node, peer=str(end.peer))
            self._world.after(0, self._tell_room, end)

    def _tell_room(self, end: StreamEnd) -> None:
        self._input(end, self._hand_over_room, end)

    # -- arriving

    def _arrive(self, sent: tuple[StreamEnd, _Piece]) -> None:
        sender, piece = sent
        if piece is _Signal.KNOCK:
            if sender.is_open:
                self._knocked(sender)
            return
        end = sender.far
        if end is None:
            return  # Sent before the stream was open, and then it was refused or given up.
        if not end.is_open:
            if sender.is_open:
                self._send_reset(end, sender)
            return
        self._note_piece(end, piece)
        if piece is _Signal.OPENED:
            end.is_established = True
        if piece is _Signal.ENDED:
            end.shut()
            self._deliver_close(end, CloseReason.ENDED)
        else:
            self._deliver(end, piece)

    def _send_reset(self, end: StreamEnd, far: StreamEnd | None) -> None:
        """Tell the far end, once, that nobody is here. It may not arrive."""
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

    # -- handing over to the machine

    def _deliver(self, end: StreamEnd, piece: _Piece) -> None:
        self._in_turn(end, (self._hand_over, (end, piece)))

    def _deliver_close(self, end: StreamEnd, reason: CloseReason) -> None:
        if reason is CloseReason.LOST:
            # What a machine has not read when its stream breaks it never reads.
            end.unread.clear()
        self._in_turn(end, (self._hand_over_close, (end, reason)))

    def _in_turn(self, end: StreamEnd, what: _Input) -> None:
        """Hand something over behind all that is unread."""
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
            self._forget_input(end, what)
            return
        if node.is_paused:
            node.inbox.append((hand_over, what))
        else:
            hand_over(what)

    def _is_known(self, end: StreamEnd) -> bool:
        """Whether the machine still has to do with this end."""
        return end.node.streams.get(end.peer) is end

    def _hand_over(self, what: tuple[StreamEnd, _Piece]) -> None:
        end, piece = what
        if not self._is_known(end):
            self._forget_input(end, what)
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

    def _hand_over_room(self, end: StreamEnd) -> None:
        machine = end.node.machine
        # It may have filled up again meanwhile; then it is told when there is room once more.
        if not self._is_known(end) or end.is_full or not isinstance(machine, Paced):
            return
        self._world.input_count += 1
        machine.resume(end.peer, end.node.now_ns)
        self._world.collect(end.node)

    def _forget_input(self, end: StreamEnd, what: Any) -> None:
        """A piece for a machine that has done with the stream makes room all the same."""
        if isinstance(what, tuple) and isinstance(what[1], bytes):
            self._note_read(end, len(what[1]))

    def _note_read(self, end: StreamEnd, size: int) -> None:
        if end.read_bytes_per_s is not None:
            size_ns = size * 1_000_000_000 // end.read_bytes_per_s
            end.read_due_ns = max(end.read_due_ns, self._world.now_ns) + size_ns
        sender = end.far
        assert sender is not None
        sender.under_way_bytes -= size
        if sender.is_open and sender.outgoing:
            self._pump_soon(sender)

    def _hand_over_close(self, what: tuple[StreamEnd, CloseReason]) -> None:
        end, reason = what
        if not self._is_known(end):
            return
        del end.node.streams[end.peer]
        self._world.note("closed", end.node, peer=str(end.peer), reason=reason.value)
        self._world.input_count += 1
        _stream_machine(end.node).stream_closed(end.peer, reason, end.node.now_ns)
        self._world.collect(end.node)

    def _note_piece(self, end: StreamEnd, piece: _Piece) -> None:
        data = piece if isinstance(piece, bytes) else b""
        what = "piece" if isinstance(piece, bytes) else piece.value
        self._world.note(what, end.node, bytes=len(data), crc=crc32(data), peer=str(end.peer))


def _stream_machine(node: Node[Any]) -> StreamMachine:
    # Checked once, where the stream began: asking a protocol whether it is kept is slow.
    return cast("StreamMachine", node.machine)
