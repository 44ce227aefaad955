"""What the picture wants done: nodes to include and exclude, and messages to send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skerry.protocol.deadlines import earliest
from skerry.protocol.node_types import NodeTypes
from skerry.protocol.picture.bodies import ELECTION, RAW, STATE, ElectionMessage, write_election
from skerry.protocol.picture.events import PictureAction, SendAll, SendOne

__all__ = ["PictureOutput"]

_RAW_RETRY_NS: Final = 100_000_000
_ELECTION_RETRY_NS: Final = 10_000_000


class PictureOutput:
    """The actions in order, and the messages that found no room."""

    def __init__(self, node_types: NodeTypes) -> None:
        self.actions: list[PictureAction] = []
        self._types = node_types
        self._retries: dict[tuple[str, int], tuple[int, bytes]] = {}
        """Messages that found no room, by node type and data type: when to send each again."""

    def send_all(self, data_type: int, body: bytes, *, is_full_only: bool = False) -> None:
        """Send a message to all nodes, or to all full nodes."""
        for one in self._types:
            if not (is_full_only and one.light):
                self.actions.append(SendAll(type_name=one.name, data_type=data_type, body=body))

    def send_election(self, messages: list[tuple[int | bool | None, ElectionMessage]]) -> None:
        """Send the messages of the election, as `Election.take_outgoing` returns them."""
        for to, message in messages:
            body = write_election(message)
            if to is None or to is True:
                self.send_all(ELECTION, body, is_full_only=to is None)
            else:
                self.actions.append(SendOne(node=int(to), data_type=ELECTION, body=body))

    def not_sent(self, action: SendAll, now_ns: int) -> None:
        """Send a message again soon, since there was no room for it."""
        if action.data_type == STATE:
            return  # The next one follows.
        delay_ns = _ELECTION_RETRY_NS if action.data_type == ELECTION else _RAW_RETRY_NS
        self._retries[action.type_name, action.data_type] = now_ns + delay_ns, action.body

    def advance(self, now_ns: int, raw_body: Callable[[], bytes]) -> None:
        """Send again what is due; raw statistics as they are now."""
        for (type_name, data_type), (due_ns, body) in list(self._retries.items()):
            if now_ns >= due_ns:
                del self._retries[type_name, data_type]
                if data_type == RAW:
                    body = raw_body()
                self.actions.append(SendAll(type_name=type_name, data_type=data_type, body=body))

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        due_ns: int | None = None
        for retry_ns, _ in self._retries.values():
            due_ns = earliest(due_ns, retry_ns)
        return due_ns

    def take(self) -> list[PictureAction]:
        """Return what is to be done since the last call, in order."""
        actions, self.actions = self.actions, []
        return actions
