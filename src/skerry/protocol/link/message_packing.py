"""Messages to samples: small messages share one, so that they share a datagram.

A sample is closed when the next message does not fit, or as soon as it can be sent. So a message on
an idle stream leaves at once, and a busy stream fills its datagrams.
"""

from __future__ import annotations

from skerry.protocol.link.packets import SampleKeys
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, record_head, whole_sample

__all__ = ["MessagePacking"]


class MessagePacking:
    """The messages of one stream that have no sequence number yet."""

    def __init__(self, fragment_bytes: int) -> None:
        self._room_bytes = fragment_bytes - SAMPLE_BYTES
        self._parts: list[bytes] = []
        self._size = 0
        self._keys: list[tuple[int, int]] = []
        self._is_keyed = True

    def __bool__(self) -> bool:
        return self._size > 0

    def fits(self, size: int) -> bool:
        """Return whether a message of `size` bytes fits the open sample."""
        return not self._size or self._size + RECORD_BYTES + size <= self._room_bytes

    def add(self, data_type: int, flags: int, data: bytes, key: int | None) -> None:
        """Append a message to the open sample."""
        self._parts.append(record_head(data_type, flags, len(data)))
        self._parts.append(data)
        self._size += RECORD_BYTES + len(data)
        if key is None:
            self._is_keyed = False
        elif self._is_keyed:
            self._keys.append((data_type, key))

    def close(self) -> tuple[bytes, SampleKeys | None]:
        """Return the open sample with the keys of its records, and begin another one."""
        is_padded = self._size <= self._room_bytes
        sample = whole_sample(b"".join(self._parts), is_padded=is_padded)
        keys = tuple(self._keys) if self._is_keyed else None
        self._parts.clear()
        self._keys.clear()
        self._size = 0
        self._is_keyed = True
        return sample, keys
