"""The node as a program: starts its core, listeners, storage and pages, and ends them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from ipaddress import ip_address
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from skerry.apps.node.config import METRICS_ADDRESS, NodeConfig, split_host_port
from skerry.apps.node.distributor_carriage import NodeDistributorCarriage, group_of_node
from skerry.apps.node.pages import node_pages
from skerry.apps.node.portal import portal_of_node
from skerry.apps.node.storage import NodeStorage
from skerry.apps.node.system_member import SystemMember
from skerry.engine.admission.admission import Admission
from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal
from skerry.errors import ConfigError, ConnectFailed, RecordingError, SkerryError
from skerry.observe.events import log_events
from skerry.protocol.machine import MachineEvent
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.health import HealthServer
from skerry.runtime.machine_driver import WallClockWatch
from skerry.runtime.streams.endpoints import Endpoint, parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.sockets import raise_descriptor_limit
from skerry.runtime.system_folders import default_socket, make_folder, state_folder
from skerry.runtime.udp.system_addresses import find_local_address
from skerry.runtime.usage import resource_usage

if TYPE_CHECKING:
    from skerry.apps.node.recording import NodeRecorder
    from skerry.apps.portal.service import PortalService

DEFAULT_ENDPOINTS = ("tcp://127.0.0.1:11235", "tcp-v1://127.0.0.1:11234")
"""Default endpoints, in addition to the Unix socket in the runtime folder."""
_SPARE_DESCRIPTORS: Final = 64
"""File descriptors reserved for storage, log, pages and imports."""

_CLOCK_CHECK_S: Final = 1.0

_Report = Callable[[str], None]
_Reread = Callable[[], NodeConfig]

log = logging.getLogger(__name__)


async def run_node(
    config: NodeConfig,
    *,
    report: _Report,
    environ: Mapping[str, str] | None = None,
    reread: _Reread | None = None,
    ready: Callable[[list[str], str | None], None] | None = None,
) -> None:
    """Run a node until SIGINT or SIGTERM, at the configured endpoints or the default ones.

    A default endpoint in use is skipped and reported; a configured one raises ConnectFailed. As for
    DOTS hosts, DOTS_ENDPOINT also gives endpoints. `reread` reads the configuration again after
    SIGHUP. `ready` is called once the node listens, with the endpoints and the HOST:PORT of the
    pages, which is None if there are none.
    """
    environ = os.environ if environ is None else environ
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_exception)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        async with _running(config, report, environ) as running:
            server = running.server
            reloader = _Reloader(config, server, reread)
            loop.add_signal_handler(signal.SIGHUP, _reload, running, reloader)
            report(f"node {config.name} listens at {', '.join(running.endpoints)}")
            if ready is not None:
                ready(running.endpoints, running.pages)
            if not config.admission.permission and any(map(_is_open, _configured(config, environ))):
                report(
                    "programs on other computers can connect but have no permissions"
                    " (see node.admission.permission)"
                )
            await _ended(stop, running.member)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    report(f"node {config.name} ends")


def default_endpoints(environ: Mapping[str, str]) -> list[Endpoint]:
    """The endpoints of a node that is not configured otherwise."""
    socket = parse_endpoint(f"uds:{quote(str(default_socket(environ)))}")
    return [socket, *map(parse_endpoint, DEFAULT_ENDPOINTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """The parts of a running node."""

    server: NodeServer
    carrier: NodeDistributorCarriage | None
    member: SystemMember | None
    endpoints: list[str]
    pages: str | None
    """HOST:PORT of the pages; None if there are none."""


async def _ended(stop: asyncio.Event, member: SystemMember | None) -> None:
    """Wait for a signal, or raise the error for which the node cannot stay in its system."""
    if member is None:
        await stop.wait()
        return
    member.failure.add_done_callback(lambda _: stop.set())
    await stop.wait()
    if member.failure.done():
        member.failure.result()


@asynccontextmanager
async def _running(
    config: NodeConfig, report: _Report, environ: Mapping[str, str]
) -> AsyncIterator[_Running]:
    async with AsyncExitStack() as ending:
        rng = SystemRandom()
        node_id = _node_id(config, rng)
        storage: NodeStorage | None = None
        journal: Journal | None = None
        if config.storage.url != "none":
            storage = NodeStorage(config.storage, name=config.name, environ=environ)
            ending.push_async_callback(storage.close)
            journal = await storage.open(rng)
        core = NodeCore(
            name=config.name,
            system=config.system or "local",
            wall_offset_ns=wall_ns() - monotonic_ns(),
            admission=Admission(config.admission, rng=rng),
            journal=journal,
            node_id=node_id,
            extensions=config.extensions,
            batch_delay_ns=round(config.batch_delay_ms * 1e6),
            has_peers=bool(config.system),
        )
        members: list[SystemMember] = []
        server = NodeServer(
            core,
            tls=config.tls,
            socket_mode=config.socket_bits,
            socket_group=config.socket_group,
            websocket=config.websocket,
            connection_count_max=_connections(raise_descriptor_limit()),
            on_events=partial(_report_events, members),
            after_input=storage.wake if storage is not None else None,
        )
        if storage is not None and (count := storage.start(core, partial(_stored, server))):
            log.info("objects restored", extra={"object_count": count})
        member = _member(server, config, rng, node_id)
        members += [] if member is None else [member]
        carriers: list[NodeDistributorCarriage] = []
        recorders: list[NodeRecorder] = []
        portals: list[PortalService] = []
        pages_address: str | None = None
        if config.metrics != "off":
            pages = HealthServer(
                node_pages(
                    core,
                    partial(_faults, server, storage, recorders, members, portals),
                    lambda: carriers[0].statistics() if carriers else None,
                    lambda: None if member is None else member.statistics(),
                    lambda: portals[0].statistics() if portals else None,
                    server.turns.durations,
                )
            )
            ending.push_async_callback(pages.close)
            pages_address = await _serve_pages(pages, config.metrics, report)
        ending.push_async_callback(server.close)
        ending.callback(_ClockCheck(core).stop)
        if config.recording.folder:
            recorders.append(_recorder(server, config))
            ending.push_async_callback(recorders[0].close)
            recorders[0].start()
            report(f"node {config.name} records to {config.recording.folder}")
        carrier = _carrier(server, config, rng)
        if carrier is not None:
            carriers.append(carrier)
            ending.push_async_callback(carrier.close)
            carrier.start()
            report(f"node {config.name} exchanges messages by {carrier.address_text}")
        portal = portal_of_node(config.portal, state_folder(environ), server)
        if portal is not None:
            portals.append(portal)
            ending.push_async_callback(portal.close)
            portal.ready()
            report(f"node {config.name} is a portal at {config.portal.manager}")
        endpoints = await _listen(server, _configured(config, environ), report, environ)
        if member is not None:
            # The last part: what follows from its picture needs all others.
            ending.push_async_callback(member.close)
            member.start()
            report(f"node {config.name} looks for the nodes of system {config.system}")
        yield _Running(
            server=server, carrier=carrier, member=member, endpoints=endpoints, pages=pages_address
        )


def _recorder(server: NodeServer, config: NodeConfig) -> NodeRecorder:
    try:
        # Imported here: only a node that records needs the library.
        from skerry.apps.node.recording import NodeRecorder
    except ImportError as error:
        missing = RecordingError(f"recording needs a package that is not installed: {error.name}")
        missing.hint = "install skerry[recording]"
        raise missing from error
    return NodeRecorder(server, config.recording, space=config.system or "local")


def _carrier(server: NodeServer, config: NodeConfig, rng: Random) -> NodeDistributorCarriage | None:
    group = group_of_node(config.distributor, config.system)
    if group is None:
        return None
    distributor = replace(config.distributor, interface=message_interface(config))
    return NodeDistributorCarriage(
        server, group, distributor, name=config.name, rng=rng, hear=log_events
    )


def message_interface(config: NodeConfig) -> str:
    """The interface for messages to other nodes: the configured one, or that of the system. Empty
    for the one that the computer uses for multicast."""
    interface, peers = config.distributor.interface, config.effective_peers()
    if interface or not config.system or not peers.control:
        return interface
    try:
        found = find_local_address(peers.control, key="node.peers.control", is_v6=peers.is_v6)
    except SkerryError as error:
        # The member waits for it.
        log.warning(
            "messages use another interface until the node is restarted",
            extra={"reason": str(error)},
        )
        return ""
    # The group has the version of its address, which the name of an interface fits.
    return found.interface.name if peers.is_v6 else found.host


def _node_id(config: NodeConfig, rng: Random) -> int:
    """A random id. In a system, it is negative for nodes that may not form one, so that they are
    never elected."""
    number = rng.getrandbits(63) or 1
    own_type = config.peers.node_types().named(config.peers.type_name)
    return -number if config.system and not own_type.can_form else number


def _member(
    server: NodeServer, config: NodeConfig, rng: Random, node_id: int
) -> SystemMember | None:
    if not config.system:
        return None
    return SystemMember(
        server,
        config.effective_peers(),
        system=config.system,
        name=config.name,
        node_id=node_id,
        rng=rng,
        group_key_file=config.distributor.key_file,
    )


def _report_events(members: Sequence[SystemMember], events: Sequence[MachineEvent]) -> None:
    log_events(events)
    for member in members:
        member.node_reported(events)


def _configured(config: NodeConfig, environ: Mapping[str, str]) -> Sequence[str]:
    """The endpoints of the configuration, otherwise those of DOTS_ENDPOINT."""
    return config.listen or environ.get("DOTS_ENDPOINT", "").split()


def _is_open(listen: str) -> bool:
    """Whether other computers can reach an endpoint."""
    endpoint = parse_endpoint(listen)
    if endpoint.kind == "unix" or endpoint.host == "localhost":
        return False
    try:
        return not ip_address(endpoint.host).is_loopback
    except ValueError:
        # A host name, which other computers may resolve.
        return True


def _faults(
    server: NodeServer,
    storage: NodeStorage | None,
    recorders: Sequence[NodeRecorder] = (),
    members: Sequence[SystemMember] = (),
    portals: Sequence[PortalService] = (),
) -> list[str]:
    """Why the node is not ready; empty if it is."""
    found = [] if server.listeners.is_open else ["the node does not listen"]
    if storage is not None and storage.trouble:
        found.append(f"objects are not stored: {storage.trouble}")
    found += [f"updates are not recorded: {one.trouble}" for one in recorders if one.trouble]
    found += [one.trouble for one in members if one.trouble]
    found += [one.trouble for one in portals if one.trouble]
    return found


async def _listen(
    server: NodeServer, configured: Sequence[str], report: _Report, environ: Mapping[str, str]
) -> list[str]:
    if configured:
        return [await server.listen(parse_endpoint(text)) for text in configured]
    endpoints: list[str] = []
    for endpoint in default_endpoints(environ):
        try:
            if endpoint.kind == "unix":
                make_folder(default_socket(environ).parent)
            endpoints.append(await server.listen(endpoint))
        except (ConnectFailed, ConfigError) as error:
            report(f"{error}; skipped")
    if not endpoints:
        raise ConnectFailed("all default endpoints are in use; choose another with --listen")
    return endpoints


async def _serve_pages(pages: HealthServer, address: str, report: _Report) -> str | None:
    """Serve the pages; returns HOST:PORT, or None if the default address is in use."""
    host, port = split_host_port(address)
    try:
        url = await pages.listen(host, port)
    except ConnectFailed as error:
        if address != METRICS_ADDRESS:
            raise
        report(f"{error}; skipped")
        return None
    log.debug("metrics and health are served", extra={"url": url})
    return url.removeprefix("http://")


class _ClockCheck:
    """Passes wall time and resource usage to the core each second, since the core does no I/O."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._clock = WallClockWatch()
        self._timer: asyncio.Handle = self._loop.call_soon(self._check)

    def stop(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        offset_ns = self._clock.changed_offset_ns()
        if offset_ns is not None:
            self._core.set_wall_offset(offset_ns, monotonic_ns())
        self._core.set_usage(resource_usage())
        self._timer = self._loop.call_later(_CLOCK_CHECK_S, self._check)


def _connections(descriptor_count: int) -> int:
    """Number of connections that fit; of few descriptors, a quarter is kept free."""
    return descriptor_count - min(_SPARE_DESCRIPTORS, descriptor_count // 4)


def _stored(server: NodeServer) -> None:
    """Changes were stored: answer flushes that waited for them."""
    server.core.advance(monotonic_ns())
    server.carry()


class _Reloader:
    """Applies changes of the configuration that a running node can apply."""

    def __init__(self, config: NodeConfig, server: NodeServer, reread: _Reread | None) -> None:
        self._config = config
        self._server = server
        self._reread = reread

    def reload(self) -> None:
        """Read the configuration again; SkerryError if it is invalid, and nothing changes then."""
        if self._reread is None:
            return
        found = self._reread()
        self._server.core.renew_admission(found.admission, monotonic_ns())
        # Send the reason to clients that are disconnected by the new rules.
        self._server.carry()
        log.info("admission reloaded")
        before = replace(self._config, admission=found.admission)
        pending = [
            f"node.{f.name}"
            for f in fields(found)
            if getattr(before, f.name) != getattr(found, f.name)
        ]
        if pending:
            # They configure parts that are already running.
            log.warning("these changes need a restart", extra={"keys": ", ".join(pending)})


def _reload(running: _Running, reloader: _Reloader) -> None:
    try:
        reloader.reload()
    except SkerryError as error:
        log.warning("admission not reloaded", extra={"reason": str(error)})
    try:
        running.server.listeners.reload_certificates()
    except SkerryError as error:
        log.warning("certificates not reloaded", extra={"reason": str(error)})
    else:
        log.info("certificates reloaded")
    try:
        if running.carrier is not None:
            running.carrier.reload_keys()
    except SkerryError as error:
        log.warning("keys of the group not reloaded", extra={"reason": str(error)})
    try:
        if running.member is not None:
            running.member.reload_keys()
    except SkerryError as error:
        log.warning("keys of the system not reloaded", extra={"reason": str(error)})


def _log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception of the event loop; the log limits the rate of repeated lines."""
    error = context.get("exception")
    if isinstance(error, OSError):
        # Out of file descriptors or memory when accepting: the loop tries again in a second.
        log.warning(str(context["message"]), extra={"reason": error.strerror or str(error)})
    else:
        log.error(str(context["message"]), exc_info=error)
