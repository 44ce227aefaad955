"""A source of recordings: a node, to which the recorder connects as a client.

The recorder subscribes to all subjects, or to the selected ones, and requests the origin of each
update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.apps.recorder.gap_tracker import GapTracker
from skerry.apps.recorder.link_rows import LinkRows, round_trip
from skerry.apps.recorder.row_queue import RowQueue
from skerry.client.api.aio import open_session
from skerry.client.core.node_subscription import NodeSubscription
from skerry.client.core.states import Refusal, SpaceState, StateChanged
from skerry.client.io.session import Session
from skerry.errors import Disconnected, Refused, RequestTimedOut
from skerry.protocol.access.header import Header
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.resume_point import ResumePoint
from skerry.schema.internal import LINK_TYPE

EVERYTHING: Final = ("/...", "SkerryLedger", LINK_TYPE)
"""Groups that together cover all updates: some types are sent only to subscribers of the type."""
_NAME: Final = "skerry-record"
_FLUSH_S_MAX: Final = 10.0
"""Time to wait for the last updates of the node when a recording ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """A node, the credentials for it, and the types and subjects to record."""

    endpoint: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    types: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    """If both are empty, everything is recorded."""
    timeout_s: float = 10.0

    @property
    def is_whole(self) -> bool:
        return not self.types and not self.subjects

    @property
    def groups(self) -> tuple[str, ...]:
        return EVERYTHING if self.is_whole else (*self.types, *self.subjects)

    async def open(self, name: str, *, with_origin: bool, send_bytes_max: int) -> Session:
        """Connect to the node as a client of this name; ConnectFailed if that fails.

        With `with_origin`, the node sends the origin of each update.
        """
        return await open_session(
            self.endpoint,
            name=name,
            types=(),
            preload=(),
            secret=self.secret,
            timeout=self.timeout_s,
            wait=False,
            ca=self.ca,
            cert=self.cert,
            key=self.key,
            origin=with_origin,
            send_bytes_max=send_bytes_max,
            queue_count_max=1,
        )


class NodeSource:
    """Records the updates of a node. `report` receives messages about the connection."""

    def __init__(
        self,
        queue: RowQueue,
        options: NodeOptions,
        *,
        space: str,
        report: Callable[[str], None],
        ending: ResumePoint | None = None,
    ) -> None:
        self._options = options
        self._ending = ending
        self._report = report
        self._gaps = GapTracker(queue, space=space, is_whole=options.is_whole)
        self.intake = self._gaps.intake
        self.intake.on_service = self._served
        self._links = LinkRows(queue, space=space, is_wanted=LINK_TYPE in options.groups)
        self._timing: asyncio.Task[None] | None = None
        """Measures the round-trip time of the node."""
        self._session: Session | None = None
        self._subscriptions: list[NodeSubscription] = []
        self._failure: Exception | None = None
        self._is_stopping = False
        self.lost_count = 0

    @property
    def name(self) -> str:
        return self._options.endpoint or "the node of this computer"

    @property
    def received_count(self) -> int:
        return int(self.intake.received_count)

    @property
    def is_complete(self) -> bool:
        """Whether all cached objects were received."""
        return bool(self._subscriptions) and all(_is_complete(item) for item in self._subscriptions)

    async def start(self) -> None:
        """Connect and join the groups; ConnectFailed if there is no node."""
        options = self._options
        session = self._session = await options.open(_NAME, with_origin=True, send_bytes_max=1)
        if self._ending is not None:
            self._gaps.resume_after(self._ending)
        session.core.intake.taker = self.intake
        session.state_listeners.append(self._state_changed)
        session.refusal_listeners.append(self._refused)
        for group in options.groups:
            subscription, _ = session.core.subscribe(group, _ignore, monotonic_ns())
            self._subscriptions.append(subscription)
        session.write_output()

    async def stop(self) -> None:
        """Receive what the node has sent until now, and disconnect."""
        self._is_stopping = True
        session = self._session
        if session is not None:
            if self._timing is not None:
                self._timing.cancel()
                await asyncio.gather(self._timing, return_exceptions=True)
            if self._is_connected and self._failure is None:
                await self._receive_rest(session)
            await session.close()
        self._gaps.end()

    def check(self) -> None:
        """Raise the error that ended the session; start a round-trip measurement when it is due."""
        if self._failure is not None:
            raise self._failure
        session = self._session
        is_idle = self._timing is None or self._timing.done()
        if session is not None and is_idle and self._is_connected and self._links.is_due():
            self._timing = session.loop.create_task(self._measure(session))

    @property
    def _is_connected(self) -> bool:
        session = self._session
        return session is not None and session.connection.state is SpaceState.CONNECTED

    async def _measure(self, session: Session) -> None:
        with suppress(Disconnected, RequestTimedOut):  # Reported elsewhere; there is no time.
            await self._flush(session)

    async def _flush(self, session: Session) -> None:
        """Flush the session, and write the round-trip time as a row."""
        asked_ns, lost_count = monotonic_ns(), self.lost_count
        with suppress(
            Refused
        ):  # A refusal is an answer, too; `_refused` handles the relevant ones.
            await session.flush(_FLUSH_S_MAX)
        if self.lost_count != lost_count:
            return  # The answer arrived on another connection, so the time is not a round trip.
        client_id = session.connection.client_id
        link = round_trip(
            client_id=client_id,
            name=_NAME,
            node=self._options.endpoint or "",
            taken_ns=monotonic_ns() - asked_ns,
        )
        self._links.write(link, sender=client_id, node=int(self.intake.node))

    async def _receive_rest(self, session: Session) -> None:
        try:
            # The answer follows all updates that the node sent before it.
            await self._flush(session)
        except (Disconnected, RequestTimedOut) as error:
            self._report(f"the last updates of the node may be missing: {error}")

    def _state_changed(self, change: StateChanged) -> None:
        if change.state is SpaceState.DISCONNECTED:
            self.lost_count += 1
            self._gaps.connection_lost()
            self._report(f"connection lost ({change.reason}); reconnecting")
        elif change.state is SpaceState.CONNECTED:
            self._report("reconnected")
        elif change.state is SpaceState.CLOSED and not self._is_stopping:
            self._failure = Disconnected(change.reason or "the node closed the connection")

    def _refused(self, _refusal: Refusal) -> None:
        # The space itself also subscribes to type descriptions, which the node may refuse.
        for subscription in self._subscriptions:
            if subscription.refusal:
                self._failure = Refused(f"the node does not permit {subscription.refusal}")

    def _served(self, header: Header, payload: bytes) -> None:
        """A protocol message to this client; the space processes it next."""
        self._gaps.learn_type(header, payload)
        if header.type_name == "DotsCacheInfo" and self._gaps.has_previous:
            assert self._session is not None
            self._session.loop.call_soon(self._check_snapshot)

    def _check_snapshot(self) -> None:
        if self._gaps.has_previous and self.is_complete:
            self._gaps.finish_snapshot()


def _is_complete(subscription: NodeSubscription) -> bool:
    """Whether all cached objects of a subscription were received."""
    return subscription.is_complete or not (
        subscription.is_pattern or subscription.route is not None
    )


def _ignore(_event: Any) -> None:
    """The intake has recorded the event already."""
