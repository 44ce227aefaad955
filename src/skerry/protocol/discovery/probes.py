"""Probes of other nodes: whether small datagrams, and those of the full size, are answered.

A probe is a message of discovery with a number of its own, which the answer repeats. The large one
is padded, and its sender does not permit that the network divides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["ProbeResult", "Probes"]

_NUMBER_BITS: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What became of the probes of one node."""

    node: int
    round_trip_ns: int | None
    """From the small probe to its answer; None if it was not answered."""
    whole_round_trip_ns: int | None
    """The same of the large one."""


class Probes:
    """The probes of one round, and which of them were answered."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._sent: dict[int, tuple[int, bool, int]] = {}
        """Node, whether it is the large one, and time, by number."""
        self._answers: dict[int, dict[bool, int | None]] = {}

    def begin(self) -> None:
        """Forget the last round."""
        self._sent.clear()
        self._answers.clear()

    def add(self, node: int, now_ns: int, *, is_whole: bool) -> int:
        """Return the number of a probe of this node."""
        number = self._rng.getrandbits(_NUMBER_BITS)
        self._sent[number] = node, is_whole, now_ns
        self._answers.setdefault(node, {False: None, True: None})
        return number

    def answered(self, number: int, node: int, now_ns: int) -> bool:
        """Note an answer; whether it is that of a probe of this node."""
        sent = self._sent.get(number)
        if sent is None or sent[0] != node:
            return False
        del self._sent[number]
        self._answers[node][sent[1]] = now_ns - sent[2]
        return True

    def results(self) -> list[ProbeResult]:
        """What is known of each node of this round."""
        return [
            ProbeResult(node=node, round_trip_ns=found[False], whole_round_trip_ns=found[True])
            for node, found in self._answers.items()
        ]
