"""Detects a dead node: how long it may be silent, and when it is probed.

A stream may be dead without an error. An idle node is sent an echo from time to time. A node that
owes an answer has to answer in time, or at least to answer a probe, since it may be waiting for its
storage.
"""

from __future__ import annotations

import enum
from typing import Literal

from skerry.client.core.settings import SpaceConfig
from skerry.protocol.deadlines import Deadlines


class LivenessAction(enum.Enum):
    """What to do about a silent node."""

    ECHO = "echo"
    """Send an echo: the connection is idle."""
    PROBE = "probe"
    """Send an echo that a node answers at once, even while it waits for its storage."""
    CLOSE = "close"
    """Close the connection: the node has not answered in time."""


class Liveness:
    """The timeouts of a connection, from the opening of its stream to its end."""

    def __init__(self, config: SpaceConfig) -> None:
        self._config = config
        self._deadlines: Deadlines[Literal["silence", "idle"]] = Deadlines()
        self._is_connected = False
        self.received_ns = 0
        """When bytes were received last, or the stream was opened."""
        self._is_answered = True
        """Whether anything was received since the last echo."""
        self._is_probed = False
        """Whether that echo was a probe."""

    def opened(self, now_ns: int) -> None:
        """Wait for the first message of the node on a new stream."""
        self._is_connected = False
        self.received_ns = now_ns
        self._is_answered = False
        self._deadlines.set("silence", now_ns + self._config.handshake_ns_max)

    def connected(self, now_ns: int, *, is_ours: bool) -> None:
        """The handshake is complete. Only a skerry node is sent echoes while it is idle."""
        self._is_connected = True
        if is_ours:
            self._deadlines.set("idle", now_ns + self._config.idle_ns_max)
        self._deadlines.cancel("silence")

    def received(self, now_ns: int) -> None:
        self.received_ns = now_ns
        self._is_answered = True

    def expect_answer(self, now_ns: int) -> None:
        # What was received before is not the answer.
        self._is_answered = self._is_probed = False
        self._deadlines.set("silence", now_ns + self._config.answer_ns_max // 2)

    def closed(self) -> None:
        self._deadlines.cancel("silence")
        self._deadlines.cancel("idle")

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return self._deadlines.next_ns()

    def advance(self, now_ns: int, *, is_waiting: bool) -> list[LivenessAction]:
        """What to do now; `is_waiting` is whether the node owes an answer."""
        actions: list[LivenessAction] = []
        for what, _ in self._deadlines.take_due(now_ns):
            if what == "silence":
                action = self._after_silence(now_ns, is_waiting)
            else:
                action = self._after_idle(now_ns)
            if action is not None:
                actions.append(action)
            if action is LivenessAction.CLOSE:
                break  # The connection is closed.
        return actions

    def _after_silence(self, now_ns: int, is_waiting: bool) -> LivenessAction | None:
        if not self._is_connected:
            return self._wait_again(now_ns, self._config.handshake_ns_max, LivenessAction.CLOSE)
        if self._is_answered:
            self._is_probed = False
            if not is_waiting:
                return None
        limit_ns = self._config.answer_ns_max // 2
        action = self._wait_again(
            now_ns, limit_ns, LivenessAction.CLOSE if self._is_probed else LivenessAction.PROBE
        )
        if action is LivenessAction.PROBE:
            self._is_probed = True
            self._is_answered = False
            self._deadlines.set("silence", now_ns + limit_ns)
        return action

    def _wait_again(
        self, now_ns: int, limit_ns: int, otherwise: LivenessAction
    ) -> LivenessAction | None:
        """Wait again if something was received within the limit."""
        if self._is_answered and self.received_ns + limit_ns > now_ns:
            self._deadlines.set("silence", self.received_ns + limit_ns)
            return None
        return otherwise

    def _after_idle(self, now_ns: int) -> LivenessAction | None:
        due_ns = self.received_ns + self._config.idle_ns_max
        if due_ns > now_ns:
            self._deadlines.set("idle", due_ns)
            return None
        self._deadlines.set("idle", now_ns + self._config.idle_ns_max)
        self.expect_answer(now_ns)
        return LivenessAction.ECHO
