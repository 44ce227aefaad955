"""What a receiver that lags behind no longer needs: states that a later one replaces.

Only messages with a key are replaced, and only while they wait. A sample is left out when each of
its records is replaced by a record of a later sample.
"""

from __future__ import annotations

from skerry.protocol.link.packets import Sample

__all__ = ["Conflation"]


class Conflation:
    """The samples that wait for one receiver, and which of their records are still the latest."""

    def __init__(self) -> None:
        self._latest: dict[tuple[int, int], int] = {}
        """The sequence number of the sample with the latest record of each key."""
        self._live_counts: dict[int, int] = {}
        """How many records of each waiting sample are the latest ones."""

    def add(self, sample: Sample) -> list[int]:
        """Add a sample behind all others; return the samples that it replaces."""
        replaced: list[int] = []
        for key in sample.record_keys():
            before = self._latest.get(key)
            self._latest[key] = sample.seq
            if before is not None and self._lose(before) and before != sample.seq:
                replaced.append(before)
            self._live_counts[sample.seq] = self._live_counts.get(sample.seq, 0) + 1
        return replaced

    def sent(self, sample: Sample) -> None:
        """Note that a sample was sent, so that it is not left out any more."""
        if self._live_counts.pop(sample.seq, None) is None:
            return
        for key in sample.record_keys():
            if self._latest.get(key) == sample.seq:
                del self._latest[key]

    def _lose(self, seq: int) -> bool:
        """Note that a record of a sample is replaced; return whether it was the last one."""
        count = self._live_counts[seq] - 1
        if count:
            self._live_counts[seq] = count
        else:
            del self._live_counts[seq]
        return not count
