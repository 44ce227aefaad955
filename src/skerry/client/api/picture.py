"""The system as its nodes see it together, live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skerry.client.api.subscription import check_callback
from skerry.client.core.events import Event, ObjectState
from skerry.client.io.session import Session
from skerry.errors import Refused
from skerry.objects.internal import internal_class
from skerry.runtime.clock import monotonic_ns

__all__ = ["Picture", "PictureFeed", "PictureNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureNode:
    """A node of the system."""

    id: int
    """New at each start of the node."""
    name: str
    kind: str
    """`full` or `light`."""
    endpoints: tuple[str, ...]
    """Where it listens."""
    is_dead: bool
    generation: int
    """How often it came back."""
    started: float
    """When, in seconds since the epoch."""


class PictureFeed:
    """The picture as the space hears of it; for use on the loop."""

    def __init__(self, session: Session) -> None:
        session.core.check_additions("pictures")
        cls = internal_class("SkerryPicture")
        interest, shape = session.core.hold(cls, monotonic_ns())
        session.carry()
        assert interest.route is not None
        assert interest.route.store is not None
        self._session = session
        self._interest = interest
        self._shape = shape
        self._objects = interest.route.store.objects
        self._read: tuple[ObjectState | None, Any] = (None, cls())
        """The last state that somebody looked at, and what it was made from."""

    @property
    def is_known(self) -> bool:
        """Whether the node has told it."""
        return bool(self._objects)

    def state(self) -> Any:
        """The last that was heard; from any thread."""
        entry = next(iter(list(self._objects.values())), None)
        seen, state = self._read
        if entry is not None and entry is not seen:
            state = self._shape.decode(entry.payload)
            self._read = (entry, state)
        return state

    async def wait(self, timeout: float | None) -> None:
        """Until the node has told it; Refused when it does not."""
        interest = self._interest
        await self._session.wait(
            lambda: self.is_known or bool(interest.refusal), timeout, "the picture of the system"
        )
        if not self.is_known:
            raise Refused(f"the node refused {interest.refusal}")

    def listen(self, callback: Callable[[], object]) -> None:
        """Call back on each change from now on."""
        self._session.core.check_additions("pictures")
        is_replayed = True

        def changed(_event: Event[Any]) -> None:
            if not is_replayed:
                callback()

        self._session.core.subscribe_beside(
            self._interest, changed, self._shape, monotonic_ns(), on_slow="conflate"
        )
        # What is known already is told while that is asked for, and is no change.
        is_replayed = False
        self._session.carry()


class Picture:
    """The nodes of the system, as the one that was elected sees them.

    Always the same object: each access reads what is known at that moment.
    """

    def __init__(self, feed: PictureFeed, do: Callable[[Callable[[], None]], object]) -> None:
        """`do` does something on the loop."""
        self._feed = feed
        self._do = do

    @property
    def is_known(self) -> bool:
        """Whether the node has told it."""
        return self._feed.is_known

    @property
    def system(self) -> str:
        """Name of the system; empty for a node without one."""
        return self._feed.state().system or ""

    @property
    def nodes(self) -> tuple[PictureNode, ...]:
        """The nodes, also those that are gone and not forgotten yet."""
        return tuple(_node(node) for node in self._feed.state().nodes or ())

    @property
    def elected(self) -> int:
        """The node that made the picture."""
        return self._feed.state().elected or 0

    @property
    def election(self) -> int:
        """The election by which it came to do so."""
        return self._feed.state().election or 0

    @property
    def sequence(self) -> int:
        """Rises with each change."""
        return self._feed.state().sequence or 0

    @property
    def is_detached(self) -> bool:
        """Whether our node is cut off from the system."""
        return bool(self._feed.state().isDetached)

    @property
    def digest(self) -> int:
        """Equal for equal nodes, whoever tells of them."""
        return self._feed.state().digest or 0

    def on_change(self, callback: Callable[[Picture], object]) -> None:
        """Be told of each change from now on, on the thread or loop of the space."""
        check_callback(callback)
        self._do(lambda: self._feed.listen(lambda: callback(self)))

    def __repr__(self) -> str:
        if not self.is_known:
            return "<a picture that is not known yet>"
        names = ", ".join(
            f"{node.name or node.id}{' (dead)' if node.is_dead else ''}" for node in self.nodes
        )
        return f"<picture {self.sequence} of {self.system or 'a node alone'}: {names}>"


def _node(node: Any) -> PictureNode:
    return PictureNode(
        id=node.id or 0,
        name=node.name or "",
        kind=node.kind or "",
        endpoints=tuple(node.endpoints or ()),
        is_dead=bool(node.isDead),
        generation=node.generation or 0,
        started=node.started or 0.0,
    )
