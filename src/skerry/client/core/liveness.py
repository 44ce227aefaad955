"""Whether the node is still there: how long it may be silent, and when it is asked for a sign.

A stream may be dead without telling. While nothing is asked of the node it is asked for a sign from
time to time; and what it was asked it has to answer, or at least to say that it is alive, since it
may wait for its storage.
"""

from __future__ import annotations

import enum
from typing import Literal

from skerry.client.core.settings import SpaceConfig
from skerry.protocol.deadlines import Deadlines

__all__ = ["Liveness", "Sign"]


class Sign(enum.Enum):
    """What is to be done about a silent node."""

    ASK = "ask"
    """Ask it something; it has been silent for long, as it may."""
    PROBE = "probe"
    """Ask what it answers at once, whatever it is at."""
    LEAVE = "leave"
    """Its time is over."""


class Liveness:
    """The silence of a node, from the opening of a stream to its end."""

    def __init__(self, config: SpaceConfig) -> None:
        self._config = config
        self._deadlines: Deadlines[Literal["silence", "idle"]] = Deadlines()
        self._is_let_in = False
        self.heard_ns = 0
        """When bytes were received last, or the stream was opened."""
        self._is_answered = True
        """Whether anything was heard since the node was asked for a sign."""
        self._is_probed = False
        """Whether that was the question which a node answers at once."""

    def opened(self, now_ns: int) -> None:
        """There is a stream, on which the node is to introduce itself."""
        self._is_let_in = False
        self.heard_ns = now_ns
        self._is_answered = False
        self._deadlines.set("silence", now_ns + self._config.handshake_ns_max)

    def let_in(self, now_ns: int, *, is_ours: bool) -> None:
        """The handshake is over. Only a node of our own kind is asked for signs."""
        self._is_let_in = True
        if is_ours:
            self._deadlines.set("idle", now_ns + self._config.idle_ns_max)
        self._deadlines.cancel("silence")

    def heard(self, now_ns: int) -> None:
        """Something came."""
        self.heard_ns = now_ns
        self._is_answered = True

    def asked(self, now_ns: int) -> None:
        """The node was asked something that it has to answer."""
        # What was heard before the question is no answer.
        self._is_answered = self._is_probed = False
        self._deadlines.set("silence", now_ns + self._config.answer_ns_max // 2)

    def closed(self) -> None:
        """The stream is gone."""
        self._deadlines.cancel("silence")
        self._deadlines.cancel("idle")

    def deadline_ns(self) -> int | None:
        """When there is something to be done."""
        return self._deadlines.next_ns()

    def advance(self, now_ns: int, *, is_waiting: bool) -> list[Sign]:
        """What is to be done now; `is_waiting` tells whether the node owes an answer."""
        signs: list[Sign] = []
        for what, _ in self._deadlines.take_due(now_ns):
            if what == "silence":
                sign = self._after_silence(now_ns, is_waiting)
            else:
                sign = self._after_idle(now_ns)
            if sign is not None:
                signs.append(sign)
            if sign is Sign.LEAVE:
                break  # There is nobody left to be asked.
        return signs

    def _after_silence(self, now_ns: int, is_waiting: bool) -> Sign | None:
        """The time for an answer is over."""
        if not self._is_let_in:
            return self._go_on(now_ns, self._config.handshake_ns_max, Sign.LEAVE)
        if self._is_answered:
            self._is_probed = False
            if not is_waiting:
                return None
        limit_ns = self._config.answer_ns_max // 2
        sign = self._go_on(now_ns, limit_ns, Sign.LEAVE if self._is_probed else Sign.PROBE)
        if sign is Sign.PROBE:
            self._is_probed = True
            self._is_answered = False
            self._deadlines.set("silence", now_ns + limit_ns)
        return sign

    def _go_on(self, now_ns: int, limit_ns: int, otherwise: Sign) -> Sign | None:
        """Wait on if something was heard within some time."""
        if self._is_answered and self.heard_ns + limit_ns > now_ns:
            self._deadlines.set("silence", self.heard_ns + limit_ns)
            return None
        return otherwise

    def _after_idle(self, now_ns: int) -> Sign | None:
        due_ns = self.heard_ns + self._config.idle_ns_max
        if due_ns > now_ns:
            self._deadlines.set("idle", due_ns)
            return None
        self._deadlines.set("idle", now_ns + self._config.idle_ns_max)
        self.asked(now_ns)
        return Sign.ASK
