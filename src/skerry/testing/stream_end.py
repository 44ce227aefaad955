"""One end of a simulated stream."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from skerry.protocol.machine import Address

if TYPE_CHECKING:
    from skerry.testing.node import Node


class Signal(enum.Enum):
    """A signal in order with the bytes."""

    CONNECT = "knock"
    OPENED = "opened"
    ENDED = "ended"


Piece = bytes | Signal
Input = tuple[Callable[[Any], None], Any]
"""An input of a machine: the function that delivers it, and its argument."""


class StreamEnd:
    """One end of a stream, and the direction from it to the far end."""

    def __init__(self, node: Node[Any], peer: Address) -> None:
        self.node = node
        self.peer = peer
        """The address of the far end for this machine."""
        self.far: StreamEnd | None = None
        """None until the stream is accepted."""
        self.is_open = True
        self.is_established = False
        self.is_probing = False
        self.is_pumping = False
        self.outgoing: deque[Piece] = deque()
        self.outgoing_bytes = 0
        self.in_flight_bytes = 0
        """Bytes sent and not read by the far machine, which count against the window."""
        self.is_full = False
        """Whether the send buffer is full, so that a `Paced` machine is paused."""
        self.arrival_ns = 0
        """Arrival time of the last piece that was sent. Later pieces must not overtake it."""
        self.try_count = 0
        self.unread: deque[Input] = deque()
        """Inputs that arrived and were not read yet, because the machine reads slowly."""
        self.read_due_ns = 0
        """Time at which the machine reads again."""
        self.read_bytes_per_s: int | None = None
        """Rate at which it reads; None for no limit."""

    def push(self, piece: Piece) -> None:
        self.outgoing.append(piece)
        if isinstance(piece, bytes):
            self.outgoing_bytes += len(piece)

    def shut(self) -> None:
        """Stop sending and receiving."""
        self.is_open = False
        self.outgoing.clear()
        self.outgoing_bytes = 0

    def cut(self, size_max: int, rng: Random) -> Piece:
        """The next piece to send: a signal, or bytes of one or more writes."""
        first = self.outgoing.popleft()
        if not isinstance(first, bytes):
            return first
        run = [first]
        run_bytes = len(first)
        while run_bytes < size_max and self.outgoing:
            following = self.outgoing[0]
            if not isinstance(following, bytes):
                break
            self.outgoing.popleft()
            run.append(following)
            run_bytes += len(following)
        data = b"".join(run)
        size = _piece_bytes(min(len(data), size_max), rng)
        if size < len(data):
            self.outgoing.appendleft(data[size:])
        self.outgoing_bytes -= size
        return data[:size]


def _piece_bytes(size_max: int, rng: Random) -> int:
    # Half of the pieces have the largest size, so that runs stay short. The others split headers
    # (a few bytes) and frames (any number of bytes).
    chance = rng.random()
    if chance < 0.5:
        return size_max
    if chance < 0.75:
        return 1 + int(rng.random() * min(size_max, 16))
    return 1 + int(rng.random() * size_max)
