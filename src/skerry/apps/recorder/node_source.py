"""A source of recordings: a node, of which the recorder is a client like others.

It joins all subjects, or those that were named, and asks with each update where it entered the
system.
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

__all__ = ["EVERYTHING", "NodeSource", "NodeWishes"]

EVERYTHING: Final = ("/...", "SkerryLedger", LINK_TYPE)
"""Groups that make up all there is: some things are told only to those who ask for them by name."""
_NAME: Final = "skerry-record"
_REST_S: Final = 10.0
"""How long a node may take to say the rest when a recording ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWishes:
    """Which node is recorded, how to get in, and what of it."""

    endpoint: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    types: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    """Without either everything is recorded."""
    timeout_s: float = 10.0

    @property
    def is_whole(self) -> bool:
        """Whether everything is recorded."""
        return not self.types and not self.subjects

    @property
    def groups(self) -> tuple[str, ...]:
        """What to join."""
        return EVERYTHING if self.is_whole else (*self.types, *self.subjects)

    async def open(self, name: str, *, tells_origin: bool, send_bytes_max: int) -> Session:
        """A session with the node, by this name; ConnectFailed when there is none.

        With `tells_origin` the node says with each update where it entered the system.
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
            origin=tells_origin,
            send_bytes_max=send_bytes_max,
            queue_count_max=1,
        )


class NodeSource:
    """Records what a node tells. `tell` hears what becomes of the connection."""

    def __init__(
        self,
        queue: RowQueue,
        wishes: NodeWishes,
        *,
        space: str,
        tell: Callable[[str], None],
        ending: ResumePoint | None = None,
    ) -> None:
        self._wishes = wishes
        self._ending = ending
        """Where a recorder before this one ended."""
        self._tell = tell
        self._witness = GapTracker(queue, space=space, is_whole=wishes.is_whole)
        self.intake = self._witness.intake
        self.intake.on_service = self._served
        self._links = LinkRows(queue, space=space, is_wanted=LINK_TYPE in wishes.groups)
        self._timing: asyncio.Task[None] | None = None
        """Waits for the node's answer."""
        self._session: Session | None = None
        self._interests: list[NodeSubscription] = []
        self._failure: Exception | None = None
        self._is_stopping = False
        self.lost_count = 0
        """How often the connection was lost."""

    @property
    def name(self) -> str:
        """What is recorded, for people."""
        return self._wishes.endpoint or "the node of this computer"

    @property
    def taken_count(self) -> int:
        """Updates that came."""
        return int(self.intake.taken_count)

    @property
    def is_complete(self) -> bool:
        """Whether all that was there has been told."""
        return bool(self._interests) and all(_is_told(item) for item in self._interests)

    async def start(self) -> None:
        """Connect and join; ConnectFailed when there is no node."""
        wishes = self._wishes
        session = self._session = await wishes.open(_NAME, tells_origin=True, send_bytes_max=1)
        if self._ending is not None:
            self._witness.go_on(self._ending)
        session.core.intake.taker = self.intake
        session.state_listeners.append(self._state_changed)
        session.refusal_listeners.append(self._refused)
        for group in wishes.groups:
            interest, _ = session.core.subscribe(group, _ignore, monotonic_ns())
            self._interests.append(interest)
        session.write_output()

    async def stop(self) -> None:
        """Take what the node had until now, and hear no more."""
        self._is_stopping = True
        session = self._session
        if session is not None:
            if self._timing is not None:
                self._timing.cancel()
                await asyncio.gather(self._timing, return_exceptions=True)
            if self._is_connected and self._failure is None:
                await self._take_the_rest(session)
            await session.close()
        self._witness.end()

    def check(self) -> None:
        """Raise what ended it, if it is over. From time to time the node is asked for an answer."""
        if self._failure is not None:
            raise self._failure
        session = self._session
        is_idle = self._timing is None or self._timing.done()
        if session is not None and is_idle and self._is_connected and self._links.is_due():
            self._timing = session.loop.create_task(self._time(session))

    @property
    def _is_connected(self) -> bool:
        session = self._session
        return session is not None and session.connection.state is SpaceState.CONNECTED

    async def _time(self, session: Session) -> None:
        """Write how long an answer of the node takes."""
        with suppress(Disconnected, RequestTimedOut):  # That is told elsewhere, and no time.
            await self._ask(session)

    async def _ask(self, session: Session) -> None:
        asked_ns, lost_count = monotonic_ns(), self.lost_count
        with suppress(Refused):  # It is an answer, too; `_refused` hears of those that matter.
            await session.flush(_REST_S)
        if self.lost_count != lost_count:
            return  # The answer came on another connection, and its time is not that of a way.
        client_id = session.connection.client_id
        link = round_trip(
            client_id=client_id,
            name=_NAME,
            node=self._wishes.endpoint or "",
            taken_ns=monotonic_ns() - asked_ns,
        )
        self._links.write(link, sender=client_id, node=int(self.intake.node))

    async def _take_the_rest(self, session: Session) -> None:
        try:
            # The answer stands behind all that the node had to say before.
            await self._ask(session)
        except (Disconnected, RequestTimedOut) as error:
            self._tell(f"what the node said last may be missing: {error}")

    def _state_changed(self, change: StateChanged) -> None:
        if change.state is SpaceState.DISCONNECTED:
            self.lost_count += 1
            self._witness.lost()
            self._tell(f"the connection is lost ({change.reason}); trying to get it back")
        elif change.state is SpaceState.CONNECTED:
            self._tell("connected again")
        elif change.state is SpaceState.CLOSED and not self._is_stopping:
            self._failure = Disconnected(change.reason or "the node ended the connection")

    def _refused(self, _refusal: Refusal) -> None:
        # To hear of new types the space asks for more than we did; that may well be refused.
        for interest in self._interests:
            if interest.refusal:
                self._failure = Refused(f"the node does not permit {interest.refusal}")

    def _served(self, header: Header, payload: bytes) -> None:
        """What the node says to us alone; the space looks at it next."""
        self._witness.served(header, payload)
        if header.type_name == "DotsCacheInfo" and self._witness.has_former:
            assert self._session is not None
            self._session.loop.call_soon(self._look_if_told)

    def _look_if_told(self) -> None:
        if self._witness.has_former and self.is_complete:
            self._witness.told_all()


def _is_told(interest: NodeSubscription) -> bool:
    """Whether nothing of what was there is still to come."""
    return interest.is_complete or not (interest.is_pattern or interest.route is not None)


def _ignore(_event: Any) -> None:
    """The intake takes it all."""
