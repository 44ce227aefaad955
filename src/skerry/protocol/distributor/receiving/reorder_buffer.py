"""Datagrams that wait because one before them is missing."""

from __future__ import annotations

from skerry.protocol.distributor.receiving.stream_delivery import DatagramContent


class ReorderBuffer:
    """The bytes that wait, of all streams of a connection together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.size = 0
        """Bytes that wait now."""

    def has_room_for(self, size: int) -> bool:
        """Return whether this many more bytes may wait."""
        return self.size + size <= self._bytes_max


class WaitingDatagrams:
    """The datagrams of one stream that wait, by their number."""

    def __init__(self, room: ReorderBuffer) -> None:
        self._room = room
        self.contents: dict[int, DatagramContent] = {}
        self.size = 0
        """Bytes of these datagrams."""

    def __len__(self) -> int:
        return len(self.contents)

    def is_full(self, size: int) -> bool:
        """Return whether there is no room for `size` more bytes; the first one always has room."""
        return len(self.contents) > 0 and not self._room.has_room_for(size)

    def add(self, seq: int, content: DatagramContent) -> None:
        self.contents[seq] = content
        self.size += len(content[1])
        self._room.size += len(content[1])

    def pop(self, seq: int) -> DatagramContent | None:
        """Take out a datagram; None if it does not wait."""
        content = self.contents.pop(seq, None)
        if content is not None:
            self.size -= len(content[1])
            self._room.size -= len(content[1])
        return content

    def drop_before(self, seq: int) -> None:
        """Discard the datagrams before this number."""
        for old_seq in [waiting for waiting in self.contents if waiting < seq]:
            self.pop(old_seq)

    def clear(self) -> None:
        """Discard all datagrams."""
        self.contents.clear()
        self._room.size -= self.size
        self.size = 0
