"""A subscription of a space at its node, shared by all local subscribers and containers."""

from __future__ import annotations

from typing import Any

from skerry.client.core.local_filters import LocalFilter
from skerry.client.core.type_route import Target, TypeRoute
from skerry.errors import LocalProtocolError
from skerry.protocol.patterns import PatternHandle


class NodeSubscription:
    """A type, a subject pattern or a filtered type that the space has subscribed to."""

    def __init__(self, group: str, *, filter_: Any = None, number: int | None = None) -> None:
        self.group = group
        """The name of the type, or the subject pattern."""
        self.filter = filter_
        self.number = number
        """The number of a filtered subscription, which the node puts into headers."""
        self.route: TypeRoute | None = None
        """None for a pattern, and for a type that is not known yet."""
        self.local_filter: LocalFilter | None = None
        """Evaluates the filter here, if the node has no filters."""
        self.base: NodeSubscription | None = None
        """The subscription to the whole type, for a filter that is evaluated here."""
        self.targets: dict[Target, PatternHandle | None] = {}
        self.last_handle: PatternHandle | None = None
        """Of a pattern that was left: it selects until the node has processed the leave."""
        self.holder_count = 0
        """Containers, local filters and preloads that need it even without subscribers."""
        self.strict_count = 0
        """Subscribers that must receive every state of an object, so without conflation."""
        self.is_complete = False
        self.refusal = ""
        """Why the node refused the subscription; empty if it did not."""
        self.is_conflated = False
        """Whether the last join asked for conflation."""

    @property
    def is_pattern(self) -> bool:
        return self.group.startswith("/")

    @property
    def is_used(self) -> bool:
        return bool(self.targets) or self.holder_count > 0

    @property
    def is_cached(self) -> bool:
        """Whether the node replays its cache, and reports the end of the replay."""
        return self.route is None or self.route.store is not None


def refuse(user: str, what: str) -> LocalProtocolError:
    """The error of a condition or container on something that is not a known type."""
    error = LocalProtocolError(f"{user} needs a type, and {what:.80} is not a known type")
    error.hint = "name a class, or ask the node for its types first with `request_types`"
    return error
