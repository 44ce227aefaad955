"""The portal as a program: until a signal, or a request of a Goby program to terminate."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol

from skerry.apps.node.config import split_host_port
from skerry.apps.portal.config import PortalProgramConfig
from skerry.apps.portal.mapper import MappingService, connect_node
from skerry.apps.portal.mapping_config import PortalMappingConfig, make_mapping
from skerry.apps.portal.pages import portal_pages
from skerry.apps.portal.service import PortalService
from skerry.errors import SkerryError
from skerry.protocol.portal.config import PortalClientConfig
from skerry.runtime.health import HealthServer
from skerry.runtime.system_folders import state_folder

_WATCH_S = 1.0
"""Interval at which the router is checked."""


async def run_portal(
    config: PortalProgramConfig,
    *,
    report: Callable[[str], None],
    environ: Mapping[str, str] | None = None,
    ready: Callable[[str, str | None], None] | None = None,
) -> None:
    """Run a portal. `ready` is called once it listens, with the endpoint of the manager and the
    HOST:PORT of the pages, which is None if there are none.

    Raises ConfigError if the rules of the mapping are faulty, ConnectFailed if the addresses are in
    use, SkerryError if the router or the mapping fails later.
    """
    mapping = make_mapping(config.mapping) if config.mapping.rules else None
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        async with AsyncExitStack() as ending:
            service = PortalService(
                config,
                state_folder=state_folder(os.environ if environ is None else environ),
                terminate=stop.set,
            )
            ending.push_async_callback(service.close)
            address: str | None = None
            if config.metrics != "off":
                pages = HealthServer(portal_pages(service))
                ending.push_async_callback(pages.close)
                url = await pages.listen(*split_host_port(config.metrics))
                address = url.removeprefix("http://")
            if mapping is not None:
                service.start_mapping(mapping, partial(connect_node, config.mapping.node))
            service.ready()
            report(f"portal {config.name} listens at {config.manager}")
            if ready is not None:
                ready(config.manager, address)
            await _ended(stop, service)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    report(f"portal {config.name} ends")


async def run_mapping(
    config: PortalMappingConfig, portal: PortalClientConfig, *, report: Callable[[str], None]
) -> None:
    """Map between a portal that runs elsewhere, such as Goby's daemon, and a space.

    Raises ConfigError if the rules are faulty, SkerryError if the node refuses the mapping.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    service = MappingService(make_mapping(config), portal, partial(connect_node, config.node))
    try:
        report(f"maps the portal at {portal.manager}")
        await _ended(stop, service)
    finally:
        await service.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _Service(Protocol):
    @property
    def trouble(self) -> str: ...


async def _ended(stop: asyncio.Event, service: _Service) -> None:
    while not stop.is_set():
        if service.trouble:
            raise SkerryError(f"the portal failed: {service.trouble}")
        try:
            async with asyncio.timeout(_WATCH_S):
                await stop.wait()
        except TimeoutError:
            continue
