"""Where the streams of forgotten nodes stood, so that they continue without loss and repetition."""

from __future__ import annotations

from typing import Final

from skerry.protocol.link.incoming_stream import IncomingStream

__all__ = ["STREAM_PLACE_COUNT_MAX", "StreamPlaces"]

STREAM_PLACE_COUNT_MAX: Final = 10_000
"""Streams whose places are kept: a few megabytes. A stream whose place was dropped continues with
what its sender still keeps, which repeats what was delivered and not acknowledged."""


class StreamPlaces:
    """The next number of each forgotten stream; those that were forgotten first are dropped."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        self._ack_count = 0
        """The count of acknowledgements of a stream without a place. It is above all earlier ones,
        since the sender ignores an acknowledgement whose count it has seen."""

    def __len__(self) -> int:
        return len(self._places)

    def note(self, stream: IncomingStream) -> None:
        """Keep the place of a stream, unless its sender no longer keeps what follows there."""
        key = stream.peer.node, stream.writer
        self._ack_count = max(self._ack_count, stream.place[1])
        if stream.is_lost:
            return
        self._places[key] = stream.place
        if len(self._places) > STREAM_PLACE_COUNT_MAX:
            del self._places[next(iter(self._places))]

    def restore(self, stream: IncomingStream) -> None:
        """Let a stream continue at its place."""
        key = stream.peer.node, stream.writer
        stream.place = self._places.pop(key, (stream.place[0], self._ack_count))
