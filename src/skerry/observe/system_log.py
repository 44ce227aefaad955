"""Logs what changes in the system of a node, and its alarms, each of them once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from skerry.engine.services.picture import Observations
from skerry.protocol.picture.entries import SystemState
from skerry.tracing import DropReason

__all__ = ["CLOCK_ALARM_MS", "SystemLog"]

CLOCK_ALARM_MS: Final = 1000
"""Clocks that differ by more are logged."""
_DROPS_NS: Final = 60_000_000_000
"""Datagrams that are dropped for one reason are logged again after none were for this time."""
_DROPS: Final = {
    DropReason.SEALED: "they are sealed, and this node has no key file",
    DropReason.UNSEALED: "they are not sealed, and this node has a key file",
    DropReason.KEY: "they are sealed with a key that is not in the key file",
    DropReason.FORGED: "they are sealed with another key of the same number, or for another system",
    DropReason.STALE: "they were sealed too long before or after now: clocks differ, or a replay",
    DropReason.NODE_TYPE: "the node type of the sender is not in the configuration",
}
"""Drops that show a mistake in the configuration of a node, and what is wrong."""

log = logging.getLogger("skerry.node")


class SystemLog:
    """Remembers what was logged of the system."""

    def __init__(self) -> None:
        self._state: SystemState | None = None
        self._observed = Observations()
        self._drops: dict[DropReason, tuple[int, int]] = {}
        """Count of each reason, and when it last rose."""

    def picture(self, state: SystemState) -> None:
        """Log the nodes that have joined, and the elected one."""
        before, self._state = self._state, state
        elected = state.entry(state.elected_id)
        name = "" if elected is None else elected.name
        if before is None:
            names = ", ".join(sorted(one.name for one in state.alive()))
            log.info(
                "the node has a picture of its system", extra={"alive": names, "elected": name}
            )
            return
        known = {one.node for one in before.alive()}
        for one in state.alive():
            if one.node not in known:
                facts = {"id": _hex(one.node), "control": one.control.text}
                log.info("a node joined the system", extra={"node": one.name, **facts})
        if state.elected_id != before.elected_id:
            facts = {"node": name, "id": _hex(state.elected_id)}
            log.info("the nodes have elected another node", extra=facts)

    def reset(self) -> None:
        """Log the next picture as the first one: the node has left the system, or found another."""
        self._state = None

    def observed(self, seen: Observations) -> None:
        """Log clocks that differ, and links that are one-way."""
        before, self._observed = self._observed, seen
        for node, offset_ms in seen.clock_offsets_ms.items():
            was_ms = before.clock_offsets_ms.get(node, 0)
            if abs(offset_ms) > CLOCK_ALARM_MS >= abs(was_ms):
                facts = {"node": self._name(node), "ahead_s": offset_ms / 1000}
                log.warning("the clock of a node differs", extra=facts)
        for node, others in seen.unheard_by.items():
            for other in others:
                if other not in before.unheard_by.get(node, ()):
                    # `what` distinguishes the links for the limit of repeated warnings.
                    what = f"{self._name(other)} receives nothing of {self._name(node)}"
                    log.warning("a link is one-way", extra={"what": what})

    def dropped(self, counts: Mapping[str, int], now_ns: int) -> None:
        """Log drops for reasons that show a mistake; `counts` has all since the start."""
        for reason, text in _DROPS.items():
            count = counts.get(reason.value, 0)
            before, rose_ns = self._drops.get(reason, (0, -_DROPS_NS))
            if count <= before:
                continue
            self._drops[reason] = count, now_ns
            if now_ns - rose_ns >= _DROPS_NS:
                log.warning("datagrams of other nodes are dropped", extra={"reason": text})

    def _name(self, node: int) -> str:
        entry = None if self._state is None else self._state.entry(node)
        return _hex(node) if entry is None or not entry.name else entry.name


def _hex(number: int) -> str:
    return f"{number % 2**64:016x}"
