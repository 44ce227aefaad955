"""One client of the node: its connection, its lane, what it may, and what is still to be done.

A client in order is served at once. Only what would take long, the replay of a large cache, is
done piece by piece, and then all that was asked later has to wait behind it: that is the agenda.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from skerry.codec.pieces import project
from skerry.engine.admission.admission import AddressUsage, Origin, Rights
from skerry.engine.admission.quotas import ClientLimits, PublishMeter
from skerry.engine.admission.shared_quotas import Holder
from skerry.engine.delivery.conflation import ConflationSlots, Late
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import Topic
from skerry.engine.types.projections import Projection, reading
from skerry.limits import CLIENT_NAME_CHAR_COUNT_MAX, FRAME_HEADER_BYTES_MAX, SMALL_FRAME_BYTES_MAX
from skerry.protocol.access.connection import ConnectionBroken, ConnectionStage
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.reading import JsonReading
from skerry.protocol.access.json.writing import JsonWriting
from skerry.protocol.access.server import ServerConnection
from skerry.protocol.machine import Address
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType
from skerry.schema.union import unite_deep

__all__ = [
    "OWED_COUNT_MAX",
    "READING_COUNT_MAX",
    "Client",
    "Countdown",
    "Input",
    "Later",
    "Task",
    "do_at_once",
]

READING_COUNT_MAX: Final = 256
"""Cached conversions of the objects of one type for clients with other definitions. There is one
for each version of a program that is connected."""
OWED_COUNT_MAX: Final = 10_000
"""Requests of one client to the node, such as echoes, whose answers wait for a cache replay or for
the storage. A correct client waits for some answers before it sends more."""


class Task(Protocol):
    """Something that is done in pieces."""

    def step(self, now_s: float) -> bool:
        """Do a piece of it; whether it is done."""


class Input:
    """Queued input of a client, which the node did not process since the client's turn was over."""

    def __init__(self) -> None:
        self.can_wait = True
        """Whether input can be queued; if not, all of it is processed at once."""
        self.is_held = False
        """Whether anything is queued. The client's socket is not read as long as it is."""
        self.is_last = False
        """Whether the connection is lost, so that the client is forgotten after this input."""
        self.is_cutting = False
        """Whether the cutter of the connection has frames left."""
        self.messages: deque[tuple[Header, bytes]] = deque()
        """Messages that are left, for connections without frames."""
        self.reading: JsonReading | None = None
        """A large message that is being read."""
        self.fault: ConnectionBroken | None = None
        """A fault in the input after these."""
        self.data: deque[bytes] = deque()
        """Bytes after all of these."""


class Client:
    """What the node knows about a client."""

    def __init__(
        self,
        address: Address,
        connection: ServerConnection,
        lane: ClientQueue,
        *,
        origin: Origin,
        limits: ClientLimits,
        opened_ns: int,
    ) -> None:
        self.address = address
        self.connection = connection
        self.lane = lane
        self.origin = origin
        self.limits = limits
        self.opened_ns = opened_ns
        self._rights: Rights | None = None
        self._find_rights: Callable[[], Rights] | None = None
        """Finds its rights after the permissions changed; None if they are found."""
        self.is_under_review = False
        """Whether its groups and claims are still to be checked after the permissions changed."""
        self.meter: PublishMeter | None = None
        """None where nothing is measured."""
        self.household: AddressUsage | None = None
        """All who come from the same address; None where there is no address."""
        self.holder = Holder("", is_trusted=True)
        """What it uses of the shared quotas."""
        self.unfinished_bytes = 0
        """Bytes of its unfinished frame."""
        self.nonce: int | None = None
        """What it was asked to answer to, if it has to prove itself."""
        self.has_extensions = False
        """Whether it was told of the additions to the protocol."""
        self.is_present = True
        """Whether its connection is still there."""
        self.is_full = False
        """Whether its transport has more than it likes already."""
        self.writing: JsonWriting | None = None
        """What becomes text for it, in steps; until then its lane is paused."""
        self.slots = ConflationSlots(lane)
        self.voice: Late | None = None
        """Tells it later of objects in the groups it joined; None before it joined one."""
        self.agenda: deque[Task] = deque()
        self.input = Input()
        self.owed_count = 0
        """Questions of its that wait for their answer, on the agenda or for the storage."""
        self.owed_bytes = 0
        self.groups: dict[str, None] = {}
        """Types and patterns that it joined, in order."""
        self.views: dict[tuple[str, int], int] = {}
        """Its filtered subscriptions, by the type and the number it gave: the parts of each."""
        self.waiting_count = 0
        """Groups of them of which it is told later what is there: it may not know the objects."""
        self.interest_count = 0
        """How often it joined or left anything."""
        self.described: dict[str, int] = {}
        """Types that it described, with the size of each description."""
        self.described_bytes = 0
        self.received_count = 0
        self.received_bytes = 0
        self.refused_count = 0
        self.running: bool | None = None
        """What it last published in its own DotsClient."""
        self.running_change_count = 0
        self.told: tuple[int, int] = (-1, -1)
        """How many types it published, and how often it had joined or left, when it was told."""

    @property
    def client_id(self) -> int:
        """What the node calls it."""
        return int(self.lane.client_id)

    @property
    def name(self) -> str:
        """What it calls itself; the beginning, where that is longer than any that is let in."""
        return self.connection.name[:CLIENT_NAME_CHAR_COUNT_MAX]

    @property
    def rights(self) -> Rights | None:
        """What it may do; None until it has introduced itself."""
        find = self._find_rights
        if find is not None:
            self._find_rights = None
            self._rights = find()
            self.limit_frames()
        return self._rights

    def let_in(self, rights: Rights) -> None:
        """It has introduced itself."""
        self._rights = rights
        self.limit_frames()

    def renew_rights(self, find: Callable[[], Rights]) -> None:
        """The permissions changed; its rights are found on their next use."""
        self._find_rights = find

    def note_described(self, type_name: str, size: int) -> None:
        """The client described a type, for the first time or again."""
        self.described_bytes += size - self.described.get(type_name, 0)
        self.described[type_name] = size

    def reading(self, topic: Topic) -> Projection | None:
        """How objects of a topic are projected for the client; None if they are sent unchanged."""
        own = self.connection.definition(topic.name)
        if own is None or own is topic.type:
            return None
        can_skip = bool(self.lane.has_subjects)
        at = (fingerprint(own), can_skip)
        if at not in topic.readings:
            if len(topic.readings) >= READING_COUNT_MAX:
                topic.readings.clear()
            topic.readings[at] = reading(own, topic.type, can_skip=can_skip)
        found: Projection | None = topic.readings[at]
        return found

    def projected(self, topic: Topic, header: Header, payload: bytes) -> bytes | None:
        """An object as the client receives it; the attributes of its header are reduced to that.

        None if the client cannot read the key of the object.
        """
        found = self.reading(topic)
        if found is not None:
            header.attributes &= found.mask
            return found.project(payload)
        if self.lane.has_subjects or not topic.shelf.unknown_keys:
            return payload
        header.attributes &= topic.plan.mask
        return project(topic.plan, payload, topic.plan.mask)[0]

    def query_type(self, topic: Topic) -> StructType:
        """The type for which conditions of the client are compiled.

        Its own definition may have fields that no publisher has: they are unset in every object.
        """
        served: StructType = topic.type
        own = self.connection.received.get(topic.name)
        if not isinstance(own, StructType) or fingerprint(own) == fingerprint(served):
            return served
        united = unite_deep(own, served)
        return united if isinstance(united, StructType) else served

    def can_read(self, topic: Topic) -> bool:
        """Whether the client can read objects of a topic at all."""
        found = self.reading(topic)
        return found is None or found.is_possible

    def limit_frames(self) -> None:
        """Set the frame limit that the client needs for what it may do.

        Larger frames are dropped as they arrive, so that they take no memory.
        """
        may_publish = self.rights is not None and self.rights.may_publish
        size = max(int(self.lane.update_bytes_max), SMALL_FRAME_BYTES_MAX) + FRAME_HEADER_BYTES_MAX
        if not may_publish:
            size = SMALL_FRAME_BYTES_MAX
        self.connection.wire.limit_frames(size, skips_large=True)

    def large_refusal(self, name: str, size: int) -> str:
        """Why a frame of so many bytes is refused, for a message."""
        limits = self.limits
        if self.rights is None:
            where = "before it was let in"
        elif not self.rights.may_publish:
            where = "of a client that may not publish"
        else:
            return (
                f"{name or 'an object'} of {size} bytes with its header, the limit is"
                f" {limits.update_bytes_max} (node.admission.limits.update_bytes_max)"
            )
        return f"{size} bytes {where}, the limit is {SMALL_FRAME_BYTES_MAX}"

    @property
    def is_in(self) -> bool:
        """Whether it was let in and is still there."""
        return self.connection.stage in (ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED)

    @property
    def is_free(self) -> bool:
        """Whether its objects need no look but the one that all get."""
        return (
            self.rights is not None
            and self.rights.allows_objects
            and self.meter is None
            and self.is_in
        )

    @property
    def asks_too_much(self) -> bool:
        """Whether it asks on and on without taking the answers."""
        limits = self.limits
        task_count_max = limits.join_count_max + limits.view_count_max + OWED_COUNT_MAX
        return (
            self.owed_count > OWED_COUNT_MAX
            or self.owed_bytes > limits.waiting_bytes_max
            or len(self.agenda) > task_count_max
        )

    def interests(self) -> list[str]:
        """The groups that it joined, and the types of its filtered subscriptions."""
        return [*self.groups, *[name for name, _ in self.views]]

    def forbidden(self, groups: list[str]) -> str | None:
        """One of some groups that it may not subscribe to."""
        rights = self.rights
        assert rights is not None
        for group in groups:
            if not rights.allows_group("subscribe", group):
                return group
        return None

    def asked(self, size: int) -> None:
        """A question of so many bytes came."""
        self.owed_count += 1
        self.owed_bytes += size

    def answered(self, size: int) -> None:
        """And was answered."""
        self.owed_count -= 1
        self.owed_bytes -= size

    def when_caught_up(self, work: Callable[[float], None], now_s: float) -> None:
        """Do something behind all that the client asked for before."""
        if self.agenda:
            self.agenda.append(do_at_once(work))
        else:
            work(now_s)


class Later:
    """A task that is made when its turn comes; None when there is nothing to do by then."""

    def __init__(self, make: Callable[[], Task | None]) -> None:
        self._make = make
        self._task: Task | None = None
        self._is_made = False

    def step(self, now_s: float) -> bool:
        """Do a piece of it."""
        if not self._is_made:
            self._is_made = True
            self._task = self._make()
        return self._task is None or self._task.step(now_s)


class do_at_once:  # noqa: N801 - it is used like a function
    """A task of one piece."""

    def __init__(self, work: Callable[[float], None]) -> None:
        self._work = work

    def step(self, now_s: float) -> bool:
        """Do it."""
        self._work(now_s)
        return True


class Countdown:
    """A task that is over when other things have happened, so many of them.

    What is to be done then is done at once, also when the client has not come so far.
    """

    def __init__(self, count: int, work: Callable[[], None]) -> None:
        self.count = count
        """How many are left."""
        self._work = work

    def one_less(self) -> None:
        """One of them happened."""
        self.count -= 1
        if self.count == 0:
            self._work()

    def step(self, now_s: float) -> bool:
        """Wait."""
        return self.count == 0
