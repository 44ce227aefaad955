"""The node as a program: a core, its doors, its storage, its pages, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from functools import partial
from ipaddress import ip_address
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from skerry.apps.node.config import METRICS_PLACE, NodeConfig, split_place
from skerry.apps.node.distributor_carriage import NodeDistributorCarriage, group_of_node
from skerry.apps.node.pages import node_pages
from skerry.apps.node.storage import NodeStorage
from skerry.engine.admission.admission import Admission
from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal
from skerry.errors import ConfigError, ConnectFailed, RecordingError, SkerryError
from skerry.observe.events import note_events
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.health import HealthServer
from skerry.runtime.streams.endpoints import Endpoint, parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.sockets import raise_descriptor_limit
from skerry.runtime.system_folders import default_socket, make_folder
from skerry.runtime.usage import resource_usage

if TYPE_CHECKING:
    from skerry.apps.node.recording import NodeRecorder

__all__ = ["DEFAULT_ENDPOINTS", "run_node", "usual_endpoints"]

DEFAULT_ENDPOINTS = ("tcp://127.0.0.1:11235", "tcp-v1://127.0.0.1:11234")
"""The usual places besides the Unix socket in the runtime folder."""
_SPARE_DESCRIPTORS: Final = 64
"""Files that are not connections: storage, log, pages, and what Python opens to import."""

_PULSE_S: Final = 1.0
_WALL_DRIFT_NS_MAX: Final = 1_000_000
"""How far wall time may be off before it is corrected. Correcting it for every microsecond that two
clocks are read apart would make times of objects go back."""

_Tell = Callable[[str], None]
_Reread = Callable[[], NodeConfig]

log = logging.getLogger(__name__)


async def run_node(
    config: NodeConfig,
    *,
    tell: _Tell,
    environ: Mapping[str, str] | None = None,
    reread: _Reread | None = None,
    ready: Callable[[list[str], str | None], None] | None = None,
) -> None:
    """Run until SIGINT or SIGTERM. Without endpoints, at the usual places of this computer.

    A usual place that is taken is passed over with a word; a named one is ConnectFailed. As for
    hosts of DOTS, DOTS_ENDPOINT names places, too. `reread` gives the configuration as it is on
    SIGHUP; `ready` is called once clients can come in, with the places, and with that of the pages
    as HOST:PORT, which is None when there are none.
    """
    environ = os.environ if environ is None else environ
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_note_fault)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        async with _running(config, tell, environ) as (server, carrier, places, pages):
            renewal = _Renewal(config, server, reread)
            loop.add_signal_handler(signal.SIGHUP, _reload, server, carrier, renewal)
            tell(f"node {config.name} listens at {', '.join(places)}")
            if ready is not None:
                ready(places, pages)
            if not config.admission.permission and any(map(_is_open, _named(config, environ))):
                tell(
                    "programs of other computers may connect, and do nothing: there are no"
                    " permissions (see node.admission.permission)"
                )
            await stop.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    tell(f"node {config.name} ends")


def usual_endpoints(environ: Mapping[str, str]) -> list[Endpoint]:
    """Where a node of this computer is found when nobody says."""
    socket = parse_endpoint(f"uds:{quote(str(default_socket(environ)))}")
    return [socket, *map(parse_endpoint, DEFAULT_ENDPOINTS)]


@asynccontextmanager
async def _running(
    config: NodeConfig, tell: _Tell, environ: Mapping[str, str]
) -> AsyncIterator[tuple[NodeServer, NodeDistributorCarriage | None, list[str], str | None]]:
    async with AsyncExitStack() as ending:
        rng = SystemRandom()
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
            node_id=rng.getrandbits(63) or 1,
            extensions=config.extensions,
            batch_delay_ns=round(config.batch_delay_ms * 1e6),
        )
        server = NodeServer(
            core,
            tls=config.tls,
            socket_mode=config.socket_bits,
            socket_group=config.socket_group,
            websocket=config.websocket,
            connection_count_max=_connections(raise_descriptor_limit()),
            hear=note_events,
            carried=storage.wake if storage is not None else None,
        )
        if storage is not None and (count := storage.start(core, partial(_stored, server))):
            log.info("objects restored", extra={"object_count": count})
        carriers: list[NodeDistributorCarriage] = []
        recorders: list[NodeRecorder] = []
        pages_place: str | None = None
        if config.metrics != "off":
            pages = HealthServer(
                node_pages(
                    core,
                    partial(_faults, server, storage, recorders),
                    lambda: carriers[0].statistics() if carriers else None,
                )
            )
            ending.push_async_callback(pages.close)
            pages_place = await _serve_pages(pages, config.metrics, tell)
        ending.push_async_callback(server.close)
        ending.callback(_Pulse(core).stop)
        if config.recording.folder:
            recorders.append(_recorder(server, config))
            ending.push_async_callback(recorders[0].close)
            recorders[0].start()
            tell(f"node {config.name} records to {config.recording.folder}")
        carrier = _carrier(server, config, rng)
        if carrier is not None:
            carriers.append(carrier)
            ending.push_async_callback(carrier.close)
            carrier.start()
            tell(f"node {config.name} carries messages by {carrier.address_text}")
        places = await _listen(server, _named(config, environ), tell, environ)
        yield server, carrier, places, pages_place


def _recorder(server: NodeServer, config: NodeConfig) -> NodeRecorder:
    try:
        # Only who records pays for the library.
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
    return NodeDistributorCarriage(
        server, group, config.distributor, name=config.name, rng=rng, hear=note_events
    )


def _named(config: NodeConfig, environ: Mapping[str, str]) -> Sequence[str]:
    """The places to listen at that somebody named, and it was not DOTS if we were told, too."""
    return config.listen or environ.get("DOTS_ENDPOINT", "").split()


def _is_open(listen: str) -> bool:
    """Whether other computers reach a place to listen at."""
    endpoint = parse_endpoint(listen)
    if endpoint.kind == "unix" or endpoint.host == "localhost":
        return False
    try:
        return not ip_address(endpoint.host).is_loopback
    except ValueError:
        # A name of this computer, which others know it by.
        return True


def _faults(
    server: NodeServer, storage: NodeStorage | None, recorders: Sequence[NodeRecorder] = ()
) -> list[str]:
    """Why nobody should be sent to this node."""
    found = [] if server.is_listening else ["the node does not listen"]
    if storage is not None and storage.trouble:
        found.append(f"objects are not stored: {storage.trouble}")
    found += [f"nothing is recorded: {one.trouble}" for one in recorders if one.trouble]
    return found


async def _listen(
    server: NodeServer, named: Sequence[str], tell: _Tell, environ: Mapping[str, str]
) -> list[str]:
    if named:
        return [await server.listen(parse_endpoint(text)) for text in named]
    places: list[str] = []
    for endpoint in usual_endpoints(environ):
        try:
            if endpoint.kind == "unix":
                make_folder(default_socket(environ).parent)
            places.append(await server.listen(endpoint))
        except (ConnectFailed, ConfigError) as error:
            tell(f"{error}; passed over")
    if not places:
        raise ConnectFailed("every usual place to listen at is taken; name another with --listen")
    return places


async def _serve_pages(pages: HealthServer, place: str, tell: _Tell) -> str | None:
    """Where they are, with the port that was chosen; None when they were passed over."""
    host, port = split_place(place)
    try:
        url = await pages.listen(host, port)
    except ConnectFailed as error:
        if place != METRICS_PLACE:
            raise
        tell(f"{error}; passed over")
        return None
    log.debug("metrics and health are served", extra={"url": url})
    return url.removeprefix("http://")


class _Pulse:
    """Tells the core each second what it cannot know: wall time, and what the process uses."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._offset_ns = wall_ns() - monotonic_ns()
        self._timer: asyncio.Handle = self._loop.call_soon(self._beat)

    def stop(self) -> None:
        self._timer.cancel()

    def _beat(self) -> None:
        now_ns = monotonic_ns()
        offset_ns = wall_ns() - now_ns
        if abs(offset_ns - self._offset_ns) > _WALL_DRIFT_NS_MAX:
            self._offset_ns = offset_ns
            self._core.set_wall_offset(offset_ns, now_ns)
        self._core.tell_usage(resource_usage())
        self._timer = self._loop.call_later(_PULSE_S, self._beat)


def _connections(descriptor_count: int) -> int:
    """How many connections there is room for. Of few descriptors, a quarter is kept free."""
    return descriptor_count - min(_SPARE_DESCRIPTORS, descriptor_count // 4)


def _stored(server: NodeServer) -> None:
    """More is stored: somebody may wait for the answer to a flush."""
    server.core.advance(monotonic_ns())
    server.carry()


class _Renewal:
    """Brings into force what has changed in the configuration, as far as a running node can."""

    def __init__(self, config: NodeConfig, server: NodeServer, reread: _Reread | None) -> None:
        self._config = config
        self._server = server
        self._reread = reread

    def renew(self) -> None:
        """Read it anew; a SkerryError if it cannot be used, and then nothing is changed."""
        if self._reread is None:
            return
        found = self._reread()
        self._server.core.renew_admission(found.admission, monotonic_ns())
        # Who is cut by that has to hear of it.
        self._server.carry()
        log.info("admission read anew")
        before = replace(self._config, admission=found.admission)
        pending = [f"node.{f.name}" for f in fields(found) if _differs(before, found, f.name)]
        if pending:
            # What was started by them cannot be changed under way.
            log.warning("these changes need a restart", extra={"keys": ", ".join(pending)})


def _differs(one: NodeConfig, other: NodeConfig, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _reload(
    server: NodeServer,
    carrier: NodeDistributorCarriage | None = None,
    renewal: _Renewal | None = None,
) -> None:
    try:
        if renewal is not None:
            renewal.renew()
    except SkerryError as error:
        log.warning("admission stays as it was", extra={"reason": str(error)})
    try:
        server.reload_certificates()
    except SkerryError as error:
        log.warning("certificates stay as they were", extra={"reason": str(error)})
    else:
        log.info("certificates read anew")
    try:
        if carrier is not None:
            carrier.reload_keys()
    except SkerryError as error:
        log.warning("keys of the group stay as they were", extra={"reason": str(error)})


def _note_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio has to complain about, as a line of ours: it comes in floods."""
    error = context.get("exception")
    if isinstance(error, OSError):
        # No file descriptors or no memory for one more: the loop tries again in a second.
        log.warning(str(context["message"]), extra={"reason": error.strerror or str(error)})
    else:
        log.error(str(context["message"]), exc_info=error)
