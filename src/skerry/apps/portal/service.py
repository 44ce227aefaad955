"""A running portal: the broker, and the broker as a program of Goby.

As a program it is a client of its own broker: it is required by the hold, so no client publishes
before the paths through the router work, and it answers questions about its health and requests to
terminate it, as the daemon of Goby does.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from skerry.apps.portal.mapper import MappingService
from skerry.client.api.aio import AsyncSpace
from skerry.client.portal.aio import AsyncPortalConnection
from skerry.client.portal.portal_link import PortalLink
from skerry.client.portal.responder import ProgramResponder
from skerry.observe.portal_log import log_portal_events
from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig, PortalConfig
from skerry.protocol.portal.mapping.portal_mapping import PortalMapping
from skerry.protocol.portal.programs.program_messages import HealthState
from skerry.protocol.portal.statistics import PortalStatistics
from skerry.runtime.portal.broker import PortalBroker
from skerry.runtime.portal.broker_config import PortalBrokerConfig

_ANY: Final = ("*", "0.0.0.0", "::", "[::]")  # noqa: S104 - compared, not bound

log = logging.getLogger(__name__)


class PortalService:
    """A portal until `close`. Made on a loop."""

    def __init__(
        self,
        config: PortalBrokerConfig,
        *,
        state_folder: Path | None = None,
        terminate: Callable[[], None] | None = None,
    ) -> None:
        """`terminate` is called if a Goby program requests the end of the portal; without it, such
        requests are not answered.

        Raises ConnectFailed if another broker has the addresses. Until `ready` is called, the hold
        is not released.
        """
        required = dict.fromkeys((*config.required_clients, config.name))
        self.broker = PortalBroker(
            replace(config, required_clients=tuple(required)),
            log_portal_events,
            state_folder=state_folder,
        )
        self.connection = AsyncPortalConnection(PortalLink(_own_client(config), self._note))
        """The portal as a client of itself."""
        self._mapping: MappingService | None = None
        self._responder = ProgramResponder(
            self.connection, health=self._health, terminate=terminate
        )

    def ready(self) -> None:
        """All subscriptions of this program are made: release the hold as far as it goes."""
        self.connection.ready()

    @property
    def trouble(self) -> str:
        """Why the portal does not work; empty if it does."""
        return self.broker.fault or ("" if self._mapping is None else self._mapping.trouble)

    def start_mapping(
        self, mapping: PortalMapping, open_space: Callable[[], Awaitable[AsyncSpace]]
    ) -> None:
        """Map publications to objects of the space that `open_space` returns, and back."""
        self._mapping = MappingService(mapping, self.connection.config, open_space)

    def statistics(self) -> PortalStatistics:
        """Return an immutable snapshot of the counters."""
        found = self.broker.statistics()
        if self._mapping is None:
            return found
        mapped = self._mapping.statistics()
        return replace(
            found,
            mapped_publications=mapped.into_space_count,
            mapped_updates=mapped.into_portal_count,
            unmapped=mapped.unmapped_count,
            returned=mapped.returned_count,
            unmapped_removes=mapped.removes_count,
            unpublished=mapped.dropped_count,
        )

    async def close(self) -> None:
        """End the portal, after what its own clients have published is sent."""
        if self._mapping is not None:
            await self._mapping.close()
        await self.connection.close()
        self.broker.close()

    def _health(self) -> tuple[HealthState, str]:
        trouble = self.trouble
        return (HealthState.FAILED, trouble) if trouble else (HealthState.OK, "")

    def _note(self, event: MachineEvent) -> None:
        log_portal_events((event,))


def _own_client(config: PortalBrokerConfig) -> PortalClientConfig:
    common = {field.name: getattr(config, field.name) for field in dataclasses.fields(PortalConfig)}
    address = "127.0.0.1" if config.listen in _ANY else config.listen
    return PortalClientConfig(
        **{**common, "address": address, "io_threads": 1}, client_name=config.name
    )
