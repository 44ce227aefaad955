"""Reads the frames of a ZeroMQ socket on the running loop.

The descriptor of a ZeroMQ socket is readable only when its state changes, and sending may consume
that change. A reader therefore reads until nothing is left, and `wake` has to be called after the
socket has sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import zmq

_FRAMES_COUNT_MAX: Final = 500
"""Messages that are read in one turn: some milliseconds, so that other sockets have theirs."""

ZmqSocket = zmq.Socket[bytes]


class FrameReader:
    """Passes each message of a socket to a function."""

    def __init__(
        self, socket: ZmqSocket, receive: Callable[[Any], None], *, is_multipart: bool = False
    ) -> None:
        """`receive` is called with the bytes of a frame, or with the list of frames of a message.

        It may close the reader.
        """
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._receive = receive
        self._read: Callable[[int], Any] = socket.recv_multipart if is_multipart else socket.recv
        self._fileno = socket.fileno()
        self._waking: asyncio.Handle | None = None
        self._is_open = True
        self._loop.add_reader(self._fileno, self._turn)
        self.wake()

    def wake(self) -> None:
        """Read in the next iteration of the loop."""
        if self._waking is None and self._is_open:
            self._waking = self._loop.call_soon(self._woken)

    def close(self) -> None:
        """Stop reading. Before the socket is closed."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._fileno)
            if self._waking is not None:
                self._waking.cancel()
                self._waking = None

    def _woken(self) -> None:
        self._waking = None
        self._turn()

    def _turn(self) -> None:
        read, receive = self._read, self._receive
        for _ in range(_FRAMES_COUNT_MAX):
            if not self._is_open:
                return
            try:
                frame = read(zmq.NOBLOCK)
            except zmq.Again:
                return
            receive(frame)
        self.wake()
