"""A mapping that runs: a client of a portal and of a node, which passes publications on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from skerry.client.api.aio import AsyncSpace, connect
from skerry.client.core.events import Event
from skerry.client.core.received_types import BYTES_NAME
from skerry.client.portal.portal_link import PortalLink
from skerry.client.portal.publications import PortalPublication
from skerry.errors import Disconnected, SkerryError
from skerry.objects.classes import class_of
from skerry.observe.portal_log import log_portal_events
from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.mapping.portal_mapping import (
    MAPPING_THREAD,
    MappingStatistics,
    NotMapped,
    PortalMapping,
    SpaceItem,
    SpaceSource,
)

MAPPING_CLIENT_NAME: Final = "skerry_mapping"
"""The name of a mapping as a client of its portal."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapperStatistics(MappingStatistics):
    """Counters of a mapping that runs."""

    dropped_count: int
    """What was mapped and could not be published, such as while the node is not connected."""


async def connect_node(endpoint: str) -> AsyncSpace:
    """The space of a node; waits for the node as long as necessary. Empty: the default node."""
    return await connect(endpoint or None, name=MAPPING_CLIENT_NAME, wait=True)


class MappingService:
    """A mapping that begins when the node can be reached, until `close`. Made on a loop."""

    def __init__(
        self,
        mapping: PortalMapping,
        portal: PortalClientConfig,
        open_space: Callable[[], Awaitable[AsyncSpace]],
    ) -> None:
        """`open_space` connects to the node, and waits for it as long as necessary."""
        self._mapping = mapping
        self._portal = portal
        self._open_space = open_space
        self._space: AsyncSpace | None = None
        self._mapper: PortalMapper | None = None
        self._task = asyncio.create_task(self._start())

    @property
    def trouble(self) -> str:
        """Why the mapping does not work; empty if it does, or waits for the node."""
        if self._task.done() and not self._task.cancelled():
            error = self._task.exception()
            if error is not None:
                return f"the mapping has ended: {error}"
        return ""

    def statistics(self) -> MapperStatistics:
        """Return an immutable snapshot of the counters."""
        if self._mapper is not None:
            return self._mapper.statistics()
        return MapperStatistics(**asdict(self._mapping.statistics()), dropped_count=0)

    async def close(self) -> None:
        """End the mapping; what waits is sent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._mapper is not None:
            await self._mapper.close()
        if self._space is not None:
            await self._space.close()

    async def _start(self) -> None:
        self._space = await self._open_space()
        self._mapper = PortalMapper(self._mapping, self._space, self._portal)
        # If the connection to the node is lost meanwhile, the space makes the subscriptions again.
        with suppress(Disconnected):
            await self._mapper.wait_open(None)
        log.info("mapping between portal and space", extra={"node": self._space.node_name})
        # Raises if the space is closed for good, such as by a node that refuses the client.
        reason = await self._space.wait_closed()
        raise Disconnected(reason)


class PortalMapper:
    """Passes publications into a space, and updates of the space to a portal. Made on a loop.

    Both connections are restored if they are lost. Objects that existed before the connection to
    the node are not published in the portal: it has no replay, and a publication is an event.
    """

    def __init__(
        self,
        mapping: PortalMapping,
        space: AsyncSpace,
        portal: PortalClientConfig,
        *,
        on_event: Callable[[MachineEvent], None] | None = None,
    ) -> None:
        """Starts at once. The caller closes the space, after the mapper."""
        self._mapping = mapping
        self._space = space
        self._dropped_count = 0
        self._is_dropping = False
        self._whole: dict[type[Any], tuple[str, ...]] = {}
        """The fields of each cached type that was published."""
        self._on_event = on_event
        own = replace(portal, client_name=MAPPING_CLIENT_NAME, echo=False)
        self._link = PortalLink(own, self._note, thread=MAPPING_THREAD)
        self._subscriptions = [
            space.subscribe(
                source.pattern if source.struct is None else class_of(source.struct),
                partial(self._updated, source),
                on_slow="conflate",
            )
            for source in mapping.sources
        ]
        for levels in mapping.levels:
            self._link.subscribe(self._received, *levels, process=None, thread=None)
        self._report_troubles()
        self._link.set_ready()

    async def wait_open(self, timeout: float | None = 10.0) -> None:
        """Wait until both sides know the subscriptions, and the portal has released its hold."""
        await self._link.wait_open(timeout)
        await self._link.settle(timeout)
        await self._space.flush(timeout=timeout)

    def statistics(self) -> MapperStatistics:
        """Return an immutable snapshot of the counters."""
        found = asdict(self._mapping.statistics())
        return MapperStatistics(**found, dropped_count=self._dropped_count)

    async def close(self) -> None:
        """End the subscriptions, and send what waits for the portal."""
        for subscription in self._subscriptions:
            subscription.close()
        await self._link.close(1.0)

    # -- from the portal into the space

    def _received(self, publication: PortalPublication) -> None:
        item = self._mapping.into_space(publication.identifier, publication.payload)
        if item is None:
            self._report_troubles()
            return
        try:
            self._publish(item)
        except SkerryError as error:
            self._drop("the space", error)
        else:
            self._is_dropping = False

    def _publish(self, item: SpaceItem) -> None:
        obj = item.obj
        if obj is None:
            self._space.publish(item.subject, item.data)
            return
        cls = type(obj)
        names = self._whole.get(cls)
        if names is None:
            struct = cls.descriptor
            # A publication is the whole object: fields that it lacks become unset.
            names = tuple(field.name for field in struct.fields) if struct.flags.cached else ()
            self._whole[cls] = names
        if names:
            self._space.publish(obj, only=names, subject=item.subject)
        else:
            self._space.publish(obj, subject=item.subject)

    # -- from the space to the portal

    def _updated(self, source: SpaceSource, event: Event[Any]) -> None:
        if event.is_from_cache or (source.struct is None and event.type_name != BYTES_NAME):
            return
        is_remove = event.operation == "remove"
        item = self._mapping.into_portal(
            source,
            event.subject,
            event.data if source.struct is None else event.object,
            is_own=event.is_from_myself,
            is_remove=is_remove,
        )
        if item is None:
            self._report_troubles()
            return
        try:
            link = self._link
            link.publish(link.frame_of(item.group, item.payload, item.scheme, item.type_name))
        except SkerryError as error:
            self._drop("the portal", error)

    # -- reports

    def _drop(self, where: str, error: SkerryError) -> None:
        self._dropped_count += 1
        if not self._is_dropping and not isinstance(error, Disconnected):
            log.warning("publications for %s are dropped", where, extra={"reason": str(error)})
        self._is_dropping = True

    def _report_troubles(self) -> None:
        if not self._mapping.has_events:
            return
        for event in self._mapping.take_events():
            if isinstance(event, NotMapped):
                log.warning(
                    "not mapped; further ones are only counted",
                    extra={"what": event.what, "reason": event.detail},
                )
            if self._on_event is not None:
                self._on_event(event)

    def _note(self, event: MachineEvent) -> None:
        log_portal_events((event,))
        if self._on_event is not None:
            self._on_event(event)
