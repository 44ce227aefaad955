"""What the services use of their node (`engine.services`, `engine.types`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skerry.engine.admission.admission import Admission
from skerry.engine.admission.shared_quotas import SharedQuotas
from skerry.engine.clients import Client, Task
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.delivery.bulk_removal import BulkRemovals
from skerry.engine.dispatch.cache import Cache
from skerry.engine.dispatch.node_publisher import NodePublisher
from skerry.engine.dispatch.topics import Topic
from skerry.engine.events import NodeEvents
from skerry.engine.persistence import Journal
from skerry.engine.services.status_objects import StatusObjects
from skerry.protocol.access.header import Header

if TYPE_CHECKING:
    from skerry.engine.connections.connections import Connections


class ServiceHost:
    """The time, the quotas and the clients of a node, and what a service can do to them."""

    def __init__(
        self,
        *,
        clock: InputClock,
        table: ClientTable,
        cache: Cache,
        journal: Journal | None,
        admission: Admission,
        shares: SharedQuotas,
        events: NodeEvents,
        publisher: NodePublisher,
        status_objects: StatusObjects,
        bulk_removals: BulkRemovals,
    ) -> None:
        self.cache = cache
        self.journal = journal
        self.shares = shares
        """What all clients use together."""
        self.clock = clock
        self.table = table
        self.admission = admission
        self.events = events
        self.publisher = publisher
        self.status_objects = status_objects
        self.bulk_removals = bulk_removals
        self._connections: Connections | None = None

    def attach(self, connections: Connections) -> None:
        """Set the connections, which are created after the services."""
        self._connections = connections

    @property
    def connections(self) -> Connections:
        assert self._connections is not None
        return self._connections

    def start(self, client: Client, task: Task, now_ns: int) -> None:
        """Add a task to a client's agenda, and run its first slice if no other task waits."""
        self.connections.turns.start(client, task, now_ns)

    def take(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Dispatch an object of a client; the client is disconnected if the object is invalid."""
        self.connections.intake.publish(client, topic, header, payload, now_ns)

    def refuse(
        self, client: Client, what: str, reason: str, now_ns: int, *, join: Any = None
    ) -> None:
        """Refuse a request: send a SkerryRefusal, or disconnect a client that cannot read one.

        `join` is the DotsMember that is refused, if it is one: the client waits for its answer.
        """
        self.connections.disconnection.refuse(client, what, reason, now_ns, join=join)

    def drop(self, client: Client, now_ns: int, why: str, *, reason: str = "fault") -> None:
        """End a connection with an error, which is sent to the client as a DotsMsgError."""
        self.connections.disconnection.drop(client, now_ns, why, reason=reason)
