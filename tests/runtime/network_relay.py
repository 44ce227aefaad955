"""A program for tests: a switch in user space that loses, repeats and reorders datagrams.

Each host has a TAP interface whose frames this program reads and writes. Faults are applied to
datagrams of UDP, for each receiver on its own; what the kernels need to find each other is passed
on. With a capture file, all frames are written into it as they were sent, once.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import selectors
import struct
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

_SET_INTERFACE = 0x400454CA
_TAP, _NO_INFO = 0x0002, 0x1000
_NEW_NETWORK = 0x40000000
_FRAME_BYTES = 2048
_UDP = 17
_ETHERNET = 1
_HELD_S = (0.001, 0.005)
"""How long a datagram is held back that is overtaken by others."""


def main() -> None:
    given = json.loads(sys.argv[1])
    relay = _Relay([_tap(pid) for pid in given["pids"]], given)
    print("ready", flush=True)
    relay.run()
    print(json.dumps(relay.counts), flush=True)


def _tap(pid: int) -> int:
    """The interface eth0 of the namespace of a process."""
    library = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/net").open() as namespace:
        if library.setns(namespace.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "cannot enter the namespace")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _SET_INTERFACE, struct.pack("16sH22x", b"eth0", _TAP | _NO_INFO))
    return tap


class _Relay:
    def __init__(self, taps: list[int], given: dict[str, Any]) -> None:
        self.counts = dict.fromkeys(("passed", "lost", "repeated", "reordered"), 0)
        self._taps = taps
        self._given = given
        self._rng = Random(given["seed"])
        self._places: dict[bytes, int] = {}
        """The interface behind which a hardware address is."""
        self._held: list[tuple[float, int, int, bytes]] = []
        self._held_count = 0
        self._capture: BinaryIO | None = None
        if given["capture"]:
            self._capture = Path(given["capture"]).open("wb")  # noqa: SIM115
            self._capture.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, _ETHERNET))

    def run(self) -> None:
        selector = selectors.DefaultSelector()
        for tap in self._taps:
            selector.register(tap, selectors.EVENT_READ, self._forward)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            wait_s = self._held[0][0] - time.monotonic() if self._held else None
            for key, _ in selector.select(None if wait_s is None else max(0.0, wait_s)):
                if key.data is None:
                    # The test has ended, or wants the counts.
                    if self._capture is not None:
                        self._capture.close()
                    return
                self._forward(key.fd)
            while self._held and self._held[0][0] <= time.monotonic():
                _, _, tap, frame = heapq.heappop(self._held)
                self._write(tap, frame)

    def _forward(self, tap: int) -> None:
        while True:
            try:
                frame = os.read(tap, _FRAME_BYTES)
            except OSError:
                return  # Nothing more, or the interface is down.
            self._record(frame)
            self._places[frame[6:12]] = tap
            known = None if frame[0] & 1 else self._places.get(frame[:6])
            for other in self._taps if known is None else [known]:
                if other != tap:
                    self._pass(other, frame)

    def _pass(self, tap: int, frame: bytes) -> None:
        if not _is_datagram(frame):
            self._write(tap, frame)
            return
        given, rng, counts = self._given, self._rng, self.counts
        counts["passed"] += 1
        if rng.random() < given["loss"]:
            counts["lost"] += 1
            return
        if rng.random() < given["reorder"]:
            counts["reordered"] += 1
            self._held_count += 1
            due_s = time.monotonic() + rng.uniform(*_HELD_S)
            heapq.heappush(self._held, (due_s, self._held_count, tap, frame))
        else:
            self._write(tap, frame)
        if rng.random() < given["repeat"]:
            counts["repeated"] += 1
            self._write(tap, frame)

    def _write(self, tap: int, frame: bytes) -> None:
        try:
            os.write(tap, frame)
        except OSError:
            # The interface is down; a switch would drop the frame, too.
            self.counts["lost"] += 1

    def _record(self, frame: bytes) -> None:
        if self._capture is not None:
            seconds, rest_ns = divmod(time.time_ns(), 1_000_000_000)
            head = struct.pack("=IIII", seconds, rest_ns // 1000, len(frame), len(frame))
            self._capture.write(head + frame)


def _is_datagram(frame: bytes) -> bool:
    kind = frame[12:14]
    return (kind == b"\x08\x00" and frame[23] == _UDP) or (
        kind == b"\x86\xdd" and frame[20] == _UDP
    )


if __name__ == "__main__":
    main()
