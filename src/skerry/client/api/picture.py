"""The picture of the system: its nodes, live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skerry.client.api.subscription import check_callback
from skerry.client.core.events import Event
from skerry.client.io.session import Session
from skerry.codec.hot_loops import ObjectState
from skerry.errors import Refused
from skerry.objects.internal import internal_class
from skerry.runtime.clock import monotonic_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureNode:
    """A node of the system."""

    id: int
    """New at each start of the node."""
    name: str
    kind: str
    """`full` or `light`."""
    endpoints: tuple[str, ...]
    """Where it listens; empty for other nodes than the one of this space."""
    is_dead: bool
    generation: int
    """How often a light node has returned."""
    started: float
    """When, in seconds since the epoch; 0 for other nodes than the one of this space."""
    node_type: str = ""
    """The name of its node type."""
    control: str = ""
    """Address of its control channel; empty for a node without a system."""
    data: str = ""
    """Address of its data channel."""
    reason: str = ""
    """Why it is dead."""
    clock_offset_s: float = 0.0
    """By how much its clock is ahead of that of the node of this space, in steps of 0.1 s."""
    unheard_by: tuple[int, ...] = ()
    """Nodes that receive nothing of it, although it receives them: one-way links."""


class PictureFeed:
    """The subscription of a space to the picture; for use on the loop."""

    def __init__(self, session: Session) -> None:
        session.core.requests_and_claims.check_additions("pictures")
        cls = internal_class("SkerryPicture")
        subscription, shape = session.core.hold(cls, monotonic_ns())
        session.write_output()
        assert subscription.route is not None
        assert subscription.route.store is not None
        self._session = session
        self._subscription = subscription
        self._shape = shape
        self._objects = subscription.route.store.objects
        self._read: tuple[ObjectState | None, Any] = (None, cls())
        """The last decoded picture, and the stored object that it was decoded from."""

    @property
    def is_known(self) -> bool:
        return bool(self._objects)

    def state(self) -> Any:
        """The last known picture; for any thread."""
        entry = next(iter(list(self._objects.values())), None)
        seen, state = self._read
        if entry is not None and entry is not seen:
            state = self._shape.decode(entry.payload)
            self._read = (entry, state)
        return state

    async def wait(self, timeout: float | None) -> None:
        """Wait until the picture is known; raises Refused if the node refuses it."""
        subscription = self._subscription
        await self._session.wait(
            lambda: self.is_known or bool(subscription.refusal),
            timeout,
            "the picture of the system",
        )
        if not self.is_known:
            raise Refused(f"the node refused {subscription.refusal}")

    def listen(self, callback: Callable[[], object]) -> None:
        """Call back on each change from now on."""
        self._session.core.requests_and_claims.check_additions("pictures")
        is_replayed = True

        def changed(_event: Event[Any]) -> None:
            if not is_replayed:
                callback()

        self._session.core.subscribe_beside(
            self._subscription, changed, self._shape, monotonic_ns(), on_slow="conflate"
        )
        # The current picture is delivered during the call above, and is not a change.
        is_replayed = False
        self._session.write_output()


class Picture:
    """The nodes of the system, as the elected node reports them.

    A space has one Picture; its attributes always have the current state.
    """

    def __init__(self, feed: PictureFeed, do: Callable[[Callable[[], None]], object]) -> None:
        """`do` calls a function on the loop."""
        self._feed = feed
        self._call = do

    @property
    def is_known(self) -> bool:
        """Whether the picture is known."""
        return self._feed.is_known

    @property
    def system(self) -> str:
        """Name of the system; `local` for a node without one."""
        return self._feed.state().system or ""

    @property
    def nodes(self) -> tuple[PictureNode, ...]:
        """The nodes, including dead ones that are not forgotten yet."""
        return tuple(_node(node) for node in self._feed.state().nodes or ())

    @property
    def node(self) -> int:
        """The node of this space."""
        return self._feed.state().node or 0

    @property
    def incarnation(self) -> int:
        """The number of the run of the system: other nodes with this name are another system."""
        return self._feed.state().incarnation or 0

    @property
    def elected(self) -> int:
        """The node that made the picture."""
        return self._feed.state().elected or 0

    @property
    def election(self) -> int:
        """The number of the election that chose this node."""
        return self._feed.state().election or 0

    @property
    def sequence(self) -> int:
        """Increases with each change."""
        return self._feed.state().sequence or 0

    @property
    def is_detached(self) -> bool:
        """Whether our node is cut off from the system."""
        return bool(self._feed.state().isDetached)

    @property
    def digest(self) -> int:
        """A hash of the nodes; equal for equal pictures of different nodes."""
        return self._feed.state().digest or 0

    def on_change(self, callback: Callable[[Picture], object]) -> None:
        """Call back for each later change, on the thread or loop of the space."""
        check_callback(callback)
        self._call(lambda: self._feed.listen(lambda: callback(self)))

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
        node_type=node.nodeType or "",
        control=node.control or "",
        data=node.data or "",
        reason=node.reason or "",
        clock_offset_s=node.clockOffset or 0.0,
        unheard_by=tuple(node.unheardBy or ()),
    )
