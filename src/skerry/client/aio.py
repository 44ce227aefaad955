"""The asyncio space: a connection to a node, for programs that run a loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from skerry.client.space import Container, Event, SpaceCore, Subscription
from skerry.errors import ConnectFailed, Disconnected, RequestTimedOut
from skerry.objects.base import Struct
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.wire import OldWire, Wire
from skerry.runtime.clock import wall_ns
from skerry.runtime.endpoints import Endpoint, parse_endpoint

__all__ = ["DEFAULT_ENDPOINT", "Space", "connect", "default_endpoint"]

DEFAULT_ENDPOINT = "tcp://127.0.0.1:11235"
_PIECE_BYTES = 256 * 1024


def default_endpoint() -> str:
    """Where to find the node when nobody says: SKERRY_ENDPOINT, DOTS_ENDPOINT, this computer."""
    return os.environ.get("SKERRY_ENDPOINT") or os.environ.get("DOTS_ENDPOINT") or DEFAULT_ENDPOINT


async def connect(
    endpoint: str | None = None,
    *,
    name: str = "skerry-client",
    types: Mapping[str, Any] | Iterable[type[Struct]] = (),
    preload: Iterable[type[Struct]] = (),
    secret: str | None = None,
    timeout: float = 10.0,
) -> Space:
    """A space of the node at an endpoint; what `preload` names is there when this returns.

    ConnectFailed when there is no node, or it does not let us in.
    """
    place = parse_endpoint(endpoint or default_endpoint())
    connection = ClientConnection(
        OldWire() if place.version == 1 else Wire(),
        name=place.user or name,
        cnonce=secrets.token_hex(8),
        secret=place.password if place.password is not None else secret,
    )
    classes = types.values() if isinstance(types, Mapping) else types
    structs = [cls for cls in classes if isinstance(cls, type) and issubclass(cls, Struct)]
    core = SpaceCore(connection, types=[c for c in structs if not c.descriptor.flags.internal])
    space = Space(core, place)
    for cls in preload:
        core.container(cls, 0.0)
    await space.start(timeout)
    return space


class Space:
    """One space of typed objects, on one connection to a node."""

    def __init__(self, core: SpaceCore, place: Endpoint) -> None:
        self._core = core
        self._place = place
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> int:
        """What the node calls us."""
        return self._core.connection.client_id

    def publish(self, obj: Struct, *, only: Iterable[str] | None = None) -> None:
        """Create an object, or update those of its fields that are set or named in `only`."""
        self._check()
        self._core.publish(obj, _now_s(), only=only)
        self._send()

    def remove(self, obj: Struct) -> None:
        """Remove the object that has this key."""
        self._check()
        self._core.publish(obj, _now_s(), remove=True)
        self._send()

    def subscribe(self, cls: type[Struct], callback: Callable[[Event], object]) -> Subscription:
        """Call back for each object of a type that is there, and for each change from then on."""
        self._check()
        subscription = self._core.subscribe(cls, callback, _now_s())
        self._send()
        return subscription

    async def container(self, cls: type[Struct], *, timeout: float = 10.0) -> Container:
        """The current objects of a type, live; complete when this returns."""
        self._check()
        container = self._core.container(cls, _now_s())
        self._send()
        if cls.descriptor.flags.cached:
            await self._wait(lambda: container.is_complete, timeout, f"objects of {cls.__name__}")
        return container

    async def flush(self, *, timeout: float = 10.0) -> None:
        """Return when everything published so far has reached the node."""
        self._check()
        number = self._core.echo(_now_s())
        self._send()
        await self._wait(lambda: self._core.is_echoed(number), timeout, "an echo")

    async def close(self) -> None:
        """Say goodbye and end the connection."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        self._core.connection.end(_now_s())
        writer.write(self._core.connection.take_output())
        writer.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        # How the stream ended does not matter to who leaves.
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def wait_closed(self) -> str:
        """Wait until the connection is over; gives the reason."""
        await self._wait(lambda: self._core.failure is not None, None, "the end")
        return self._core.failure or ""

    async def start(self, timeout: float) -> None:
        """Connect; `connect` does this."""
        try:
            reader, self._writer = await asyncio.wait_for(self._open(), timeout)
        except OSError as error:
            # What asyncio makes of it repeats the address; the number says it plainly.
            why = os.strerror(error.errno) if error.errno else str(error)
            raise _unreachable(self._place, why) from None
        except TimeoutError:
            raise _unreachable(self._place, "no answer in time") from None
        self._reading = asyncio.create_task(self._read(reader))
        try:
            await self._wait(lambda: self._core.is_connected, timeout, "the handshake")
        except Disconnected as error:
            await self.close()
            raise ConnectFailed(f"{self._place.text}: {error}") from None
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._place.path:
            return await asyncio.open_unix_connection(self._place.path)
        return await asyncio.open_connection(self._place.host, self._place.port)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while self._core.failure is None:
                data = await reader.read(_PIECE_BYTES)
                if not data:
                    self._core.failure = "the node closed the connection"
                    break
                for subscription, event in self._core.receive(data, _now_s()):
                    subscription.callback(event)
                self._send()
                self._wake()
        except OSError as error:
            self._core.failure = f"the connection broke: {error.strerror or error}"
        finally:
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, condition: Callable[[], bool], timeout: float | None, what: str) -> None:
        async def until() -> None:
            while not condition():
                if self._core.failure is not None:
                    raise Disconnected(self._core.failure)
                await self._changed.wait()

        try:
            await asyncio.wait_for(until(), timeout)
        except TimeoutError:
            raise RequestTimedOut(f"{what} did not come within {timeout} s") from None

    def _check(self) -> None:
        if self._core.failure is not None:
            raise Disconnected(self._core.failure)
        if self._writer is None:
            raise Disconnected("the space is closed")

    def _send(self) -> None:
        if self._writer is not None and self._core.connection.out_bytes:
            self._writer.write(self._core.connection.take_output())


def _now_s() -> float:
    return seconds_of_ns(wall_ns())


def _unreachable(place: Endpoint, why: str) -> ConnectFailed:
    error = ConnectFailed(f"no node answered at {place.text}: {why}")
    error.hint = "start one with `skerry node run`, or name another with --node"
    return error
