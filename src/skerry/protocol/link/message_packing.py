"""Messages to samples: small messages share one, so that they share a datagram. A hot module.

A sample is closed when the next message does not fit, or as soon as it can be sent. So a message on
an idle stream leaves at once, and a busy stream fills its datagrams.
"""

from __future__ import annotations

from mypy_extensions import i64

from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, SampleWriter

__all__ = ["MessagePacking"]


class MessagePacking:
    """The messages of one stream that have no sequence number yet."""

    def __init__(self, fragment_bytes: int) -> None:
        self._room_bytes: i64 = fragment_bytes - SAMPLE_BYTES
        self._writer = SampleWriter()
        self._size: i64 = 0
        self._keys: list[int] = []
        self._is_keyed = True

    def __bool__(self) -> bool:
        return self._size > 0

    def fits(self, size: i64) -> bool:
        """Return whether a message of `size` bytes fits the open sample."""
        return self._size == 0 or self._size + RECORD_BYTES + size <= self._room_bytes

    def add(self, data_type: int, flags: int, data: bytes, key: int | None) -> None:
        """Append a message to the open sample."""
        self._writer.add(data_type, flags, data)
        self._size += RECORD_BYTES + len(data)
        if key is None:
            self._is_keyed = False
        elif self._is_keyed:
            self._keys.append(key)

    def close(self) -> tuple[bytes, list[int] | None]:
        """Return the open sample with the keys of its records, and begin another one. There are
        no keys if a record has none."""
        sample = self._writer.finish(is_padded=self._size <= self._room_bytes)
        keys = self._keys if self._is_keyed else None
        self._size = 0
        self._keys = []
        self._is_keyed = True
        return sample, keys
