"""Subjects as they come from the wire, and whether anybody wants them.

Turning bytes into a subject and matching it costs a microsecond or two, and subjects come again and
again, so what was found is remembered by the bytes: the subject, or an empty text when nobody has
subscribed to it. Subscribing and unsubscribing begin the memory anew.
"""

from __future__ import annotations

from skerry.limits import DISTRIBUTOR_MEMO_BYTES_MAX
from skerry.protocol.distributor.wire import text_of
from skerry.protocol.patterns import PatternHandle, PatternTree

__all__ = ["Subjects"]

_ENTRY_BYTES = 200
"""About what one entry takes besides its text."""


class Subjects:
    """The subscriptions of a connection."""

    def __init__(self, *, is_java: bool = False) -> None:
        self._tree = PatternTree(is_java=is_java)
        self._memo_size = 0
        self.memo: dict[bytes, str] = {}
        """What is known by now: read it, and ask `resolve` for what is not in it."""
        self.refused_count = 0
        """Updates, or first ones of many, whose subject does not begin with a slash."""

    def __len__(self) -> int:
        return len(self._tree)

    def add(self, pattern: str, value: object) -> PatternHandle:
        """Subscribe. LocalProtocolError for what is no pattern."""
        handle = self._tree.add(pattern, value)
        self._forget()
        return handle

    def remove(self, handle: PatternHandle) -> None:
        """Unsubscribe. LocalProtocolError when that was done before."""
        self._tree.remove(handle)
        self._forget()

    def clear(self) -> None:
        """End all subscriptions."""
        self._tree.clear()
        self._forget()

    def match(self, subject: str) -> list[object]:
        """The values that were given with the subscriptions this subject is selected by."""
        return self._tree.match(subject)

    def resolve(self, raw: bytes) -> str:
        """The subject, or an empty text if nobody wants it."""
        subject = text_of(raw)
        if not subject.startswith("/"):
            # It has no level and is selected by nothing. Not remembered, so that each is counted.
            self.refused_count += 1
            return ""
        wanted = subject if self._tree.matches_any(subject) else ""
        self._memo_size += len(raw) + len(wanted) + _ENTRY_BYTES
        if self._memo_size > DISTRIBUTOR_MEMO_BYTES_MAX:
            self._forget()
        self.memo[raw] = wanted
        return wanted

    def _forget(self) -> None:
        # Emptied in place: an unpacker may hold on to the dictionary.
        self.memo.clear()
        self._memo_size = 0
