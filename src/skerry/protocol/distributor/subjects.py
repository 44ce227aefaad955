"""The subscriptions of a connection, by the bytes of subjects on the wire.

Decoding and matching a subject costs a microsecond or two, and subjects repeat, so the result is
cached by the bytes: the subject, or an empty text if there is no subscription to it. Subscribing
and unsubscribing clear the cache.
"""

from __future__ import annotations

from skerry.limits import DISTRIBUTOR_MEMO_BYTES_MAX
from skerry.protocol.distributor.wire import text_of
from skerry.protocol.patterns import PatternHandle, PatternTree

_ENTRY_BYTES = 200
"""The approximate size of an entry without its text."""


class Subjects:
    def __init__(self, *, is_java: bool = False) -> None:
        self._tree = PatternTree(is_java=is_java)
        self._memo_size = 0
        self.memo: dict[bytes, str] = {}
        """The cache; call `resolve` for bytes that are not in it."""
        self.refused_count = 0
        """Updates, or first ones of many, with a subject that does not begin with a slash."""

    def __len__(self) -> int:
        return len(self._tree)

    def add(self, pattern: str, value: object) -> PatternHandle:
        """Subscribe. LocalProtocolError for an invalid pattern."""
        handle = self._tree.add(pattern, value)
        self._forget()
        return handle

    def remove(self, handle: PatternHandle) -> None:
        """Unsubscribe. LocalProtocolError if that was done before."""
        self._tree.remove(handle)
        self._forget()

    def clear(self) -> None:
        """End all subscriptions."""
        self._tree.clear()
        self._forget()

    def match(self, subject: str) -> list[object]:
        """Return the values of the subscriptions that select a subject."""
        return self._tree.match(subject)

    def resolve(self, raw: bytes) -> str:
        """Return the subject, or an empty text if there is no subscription to it."""
        subject = text_of(raw)
        if not subject.startswith("/"):
            # No pattern selects a subject without levels. It is not cached, to count each.
            self.refused_count += 1
            return ""
        found = subject if self._tree.matches_any(subject) else ""
        self._memo_size += len(raw) + len(found) + _ENTRY_BYTES
        if self._memo_size > DISTRIBUTOR_MEMO_BYTES_MAX:
            self._forget()
        self.memo[raw] = found
        return found

    def _forget(self) -> None:
        # Emptied in place, because an unpacker may hold the dictionary.
        self.memo.clear()
        self._memo_size = 0
