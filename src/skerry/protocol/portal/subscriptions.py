"""The subscriptions of a client: which filters its socket needs, and which of them a frame matches.

A frame is delivered to each subscription that matches it, first to those by prefix, then to those
by regular expression. What an identifier matches is computed once and remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.protocol.portal.identifiers import Identifier, Scheme, read_identifier, split_frame

PORTAL_SUBSCRIPTION_COUNT_MAX: Final = 10_000
"""Subscriptions of one client: each identifier is compared with all of them once."""
_KNOWN_COUNT_MAX: Final = 4096
"""Identifiers that are remembered. Each process and thread has its own, and any peer can invent
more."""

EVERYTHING: Final = b"/"
"""The filter of subscriptions by regular expression, as its socket cannot evaluate them."""


@dataclass(frozen=True, slots=True, eq=False)
class PortalSubscription:
    """A subscription; each one is different."""

    filter: bytes
    """The prefix that the socket receives."""
    target: object
    """What the subscriber gave with it."""
    expression: PortalExpression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalExpression:
    """The condition of a subscription by regular expression; both must match the whole text."""

    schemes: frozenset[int]
    """Schemes that match; Scheme.ALL for all."""
    type_name: re.Pattern[str]
    group: re.Pattern[str]

    def matches(self, identifier: Identifier) -> bool:
        return (
            (Scheme.ALL in self.schemes or identifier.scheme in self.schemes)
            and self.type_name.fullmatch(identifier.type_name) is not None
            and self.group.fullmatch(identifier.group) is not None
        )


def make_expression(
    *, schemes: Iterable[int] = (Scheme.ALL,), type_name: str = ".*", group: str = ".*"
) -> PortalExpression:
    """Compile the condition. Raises LocalProtocolError for an invalid regular expression."""
    compiled = []
    for name, text in (("type", type_name), ("group", group)):
        try:
            compiled.append(re.compile(text, re.DOTALL))
        except (re.error, RecursionError, OverflowError) as error:
            raise LocalProtocolError(
                f"the regular expression {text!r:.80} for the {name} is invalid: {error}"
            ) from None
    return PortalExpression(schemes=frozenset(schemes), type_name=compiled[0], group=compiled[1])


class PortalMatch(NamedTuple):
    """What a frame is, and the targets of the subscriptions that match it."""

    identifier: Identifier
    targets: tuple[object, ...]


class PortalSubscriptions:
    """The subscriptions of one client."""

    def __init__(self, *, ignored: tuple[int, int] | None = None) -> None:
        """`ignored` are a process and a thread whose publications match nothing."""
        self._ignored = ignored
        # Dictionaries for their order, that of subscribing.
        self._by_prefix: dict[PortalSubscription, None] = {}
        self._by_expression: dict[PortalSubscription, None] = {}
        self._filter_counts: dict[bytes, int] = {}
        self._known: dict[bytes, PortalMatch] = {}

    def __len__(self) -> int:
        return len(self._by_prefix) + len(self._by_expression)

    def add(self, subscription: PortalSubscription) -> bool:
        """Add a subscription. Returns whether the socket needs a new filter.

        Raises LimitExceeded.
        """
        if len(self) >= PORTAL_SUBSCRIPTION_COUNT_MAX:
            raise LimitExceeded(
                what="subscriptions of a portal client",
                value=len(self) + 1,
                limit=PORTAL_SUBSCRIPTION_COUNT_MAX,
            )
        self._place(subscription)[subscription] = None
        self._known.clear()
        count = self._filter_counts.get(subscription.filter, 0)
        self._filter_counts[subscription.filter] = count + 1
        return count == 0

    def remove(self, subscription: PortalSubscription) -> bool:
        """Remove a subscription. Returns whether the socket does not need its filter any more."""
        place = self._place(subscription)
        if subscription not in place:
            return False
        del place[subscription]
        self._known.clear()
        count = self._filter_counts.pop(subscription.filter) - 1
        if count:
            self._filter_counts[subscription.filter] = count
        return count == 0

    def filters(self) -> list[bytes]:
        """The filters that the socket needs, oldest first."""
        return list(self._filter_counts)

    def match(self, frame: bytes) -> tuple[PortalMatch, int]:
        """Return what a frame matches, and where its payload starts. Raises DecodeError."""
        head, start = split_frame(frame)
        found = self._known.get(head)
        if found is None:
            found = self._found(head)
        return found, start

    # -- inside

    def _found(self, head: bytes) -> PortalMatch:
        identifier = read_identifier(head)
        if (identifier.process, identifier.thread) == self._ignored:
            targets: tuple[object, ...] = ()
        else:
            by_prefix = [one.target for one in self._by_prefix if head.startswith(one.filter)]
            by_expression = [
                one.target
                for one in self._by_expression
                if one.expression is not None and one.expression.matches(identifier)
            ]
            targets = (*by_prefix, *by_expression)
        if len(self._known) >= _KNOWN_COUNT_MAX:
            self._known.clear()
        found = self._known[head] = PortalMatch(identifier, targets)
        return found

    def _place(self, subscription: PortalSubscription) -> dict[PortalSubscription, None]:
        return self._by_prefix if subscription.expression is None else self._by_expression
