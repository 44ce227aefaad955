"""Clients of a portal: programs that exchange publications with programs of Goby.

    from skerry import portal

    with portal.open("pilot", platform="auv") as connection:
        connection.subscribe(print, "position", portal.Scheme.PROTOBUF)
        connection.ready()
        connection.publish("status", "under way")

Publications wait until the portal releases its hold. A connection that is lost is restored, with
its subscriptions.
"""

from __future__ import annotations

from skerry.client.portal.application import PortalApplication as Application
from skerry.client.portal.publications import PortalPublication as Publication
from skerry.client.portal.sync import PortalConnection as Connection
from skerry.client.portal.sync import open_portal as open  # noqa: A004 - its public name
from skerry.protocol.portal.config import PortalClientConfig as Config
from skerry.protocol.portal.identifiers import Identifier, Scheme, group_text
from skerry.protocol.portal.programs.program_messages import HealthState
from skerry.protocol.portal.session_messages import (
    ManagerSilent,
    PortalLost,
    PortalOpened,
    PublicationsDropped,
    SessionStatistics,
    SubscriptionsSettled,
)
from skerry.protocol.portal.subscriptions import PortalSubscription as Subscription

__all__ = [
    "Application",
    "Config",
    "Connection",
    "HealthState",
    "Identifier",
    "ManagerSilent",
    "PortalLost",
    "PortalOpened",
    "Publication",
    "PublicationsDropped",
    "Scheme",
    "SessionStatistics",
    "Subscription",
    "SubscriptionsSettled",
    "group_text",
    "open",
]
