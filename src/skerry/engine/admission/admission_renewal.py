"""Replaces the rules of admission while clients are connected."""

from __future__ import annotations

from functools import partial

from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permission_review import PermissionReviews
from skerry.engine.admission.permissions import Rights
from skerry.engine.admission.shared_quotas import SharedQuotas
from skerry.engine.clients import Client
from skerry.engine.connections.connections import Connections
from skerry.engine.dispatch.dispatcher import Dispatcher


class AdmissionRenewal:
    """Applies rules for authentication, permissions and limits to all parts of a node."""

    def __init__(
        self,
        *,
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
