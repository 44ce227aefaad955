"""Replaces the rules of admission, and checks all connected clients in slices after that.

New permissions apply at once: the rights of a client are computed again on their next use, and
routes leave out a group that its member may no longer subscribe to. The rest takes long with many
clients and is done here step by step: a client that joined or claimed something that it may no
longer use is disconnected, objects that it may not see any more are excluded from its replays, and
types that a client described and may use now are registered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import Rights
from skerry.engine.admission.shared_quotas import SharedQuotas
from skerry.engine.clients import Client
from skerry.engine.connections.connections import Connections
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.routing import Routing
from skerry.engine.services.node_services import NodeServices
from skerry.limits import SELECT_SLICE_COUNT

_WORK_PER_CLIENT: Final = 20
_GROUPS_PER_STEP: Final = 10
_WORK_PER_STEP: Final = 50
"""Work units for the check of so many groups."""
_CLAIMS_PER_WORK_UNIT: Final = 2
_WORK_PER_TYPE: Final = 50


class PermissionReviews:
    def __init__(self, node: ServiceHost, routing: Routing, services: NodeServices) -> None:
        self._node = node
        self._routing = routing
        self._services = services
        self._unchecked: deque[Client] = deque()
        self._unregistered: deque[Client] = deque()
        """Clients whose types may have to be registered after all clients are checked."""
        self._steps: Iterator[int] = iter(())
        self._is_busy = False

    def __bool__(self) -> bool:
        return self._is_busy

    def begin(self, clients: Iterable[Client]) -> None:
        """Start to check clients whose rights changed."""
        self._unchecked = deque(clients)
        for client in self._unchecked:
            client.is_under_review = True
        self._unregistered = deque(self._unchecked)
        self._steps = self._all_steps()
        self._is_busy = True

    def advance(self) -> None:
        """Do one slice of the remaining checks."""
        work_left = SELECT_SLICE_COUNT
        while self._is_busy and work_left > 0:
            cost = next(self._steps, None)
            if cost is None:
                self._is_busy = False
            else:
                work_left -= cost

    def _all_steps(self) -> Iterator[int]:
        while self._unchecked:
            yield from self._check(self._unchecked.popleft())
        while self._unregistered:
            client = self._unregistered.popleft()
            for own in list(client.connection.received.values()):
                if client.is_present:
                    self._services.type_descriptions.register(client, own, self._node.clock.now_ns)
                    yield _WORK_PER_TYPE

    def _check(self, client: Client) -> Iterator[int]:
        forbidden: str | None = None
        groups = client.subscribed_groups()
        for start in range(0, len(groups), _GROUPS_PER_STEP):
            forbidden = client.forbidden(groups[start : start + _GROUPS_PER_STEP])
            yield _WORK_PER_STEP
            if forbidden is not None:
                break
        forbidden = forbidden or self._services.ownership.forbidden(client)
        if forbidden is None and client.is_present:
            yield from self._routing.excluding(client)
        client.is_under_review = False
        if forbidden is not None and client.is_present:
            why = f"{forbidden}: not permitted any more"
            self._node.drop(client, self._node.clock.now_ns, why, reason="refused")
        elif client.is_present:
            self._node.connections.turn_queue.schedule(client)
        yield (
            _WORK_PER_CLIENT + self._services.ownership.claim_count(client) // _CLAIMS_PER_WORK_UNIT
        )


class AdmissionRenewal:
    def __init__(
        self,
        admission: Admission,
        shares: SharedQuotas,
        dispatcher: Dispatcher,
        connections: Connections,
        reviews: PermissionReviews,
    ) -> None:
        self._admission = admission
        self._shares = shares
        self._dispatcher = dispatcher
        self._connections = connections
        self._reviews = reviews

    def renew(self, config: AdmissionConfig) -> None:
        """Replace the rules.

        Permissions and shares of addresses apply at once. A client that joined or claimed something
        it may no longer use is disconnected with the reason when its turn of the review comes
        (`engine.admission.permission_review`). Authentication and limits apply to new connections.
        """
        self._admission.renew(config)
        self._connections.backpressure.renew(config.limits.backpressure_s_max)
        self.apply_limits()
        accepted = [
            client for client in self._connections.clients.values() if client.rights is not None
        ]
        for client in accepted:
            client.renew_rights(partial(self._rights_of, client))
        # Subscribers that may not see some subjects are part of a route.
        for topic in self._dispatcher.all_topics():
            topic.forget_routes()
        self._reviews.begin(accepted)
        self._reviews.advance()

    def apply_limits(self) -> None:
        """Pass the limits of addresses and objects to the quotas and to the cache."""
        limits = self._shares.limits = self._admission.limits
        cache = self._dispatcher.cache
        cache.payload_bytes_max = limits.update_bytes_max
        cache.quotas.address_count_max = limits.object_count_per_address_max
        cache.quotas.address_bytes_max = limits.object_bytes_per_address_max

    def _rights_of(self, client: Client) -> Rights:
        return self._admission.rights(client.origin, client.connection.name)
