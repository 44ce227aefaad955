"""One client of the node: its connection, its queue, its rights, and its unfinished tasks.

Most messages of a client are answered at once. A task that takes long, such as the replay of a
large cache, is done in slices. Later requests of the client wait behind it on its agenda.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from skerry.codec.projection import project
from skerry.engine.admission.admission import AddressUsage
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.permissions import Rights
from skerry.engine.admission.quotas import ClientLimits, PublishMeter
from skerry.engine.admission.shared_quotas import Holder
from skerry.engine.delivery.conflation import ConflatedOutput, ConflationSlots
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import Topic
from skerry.engine.types.projections import Projection, reading
from skerry.limits import CLIENT_NAME_CHAR_COUNT_MAX, FRAME_HEADER_BYTES_MAX, SMALL_FRAME_BYTES_MAX
from skerry.protocol.access.connection import ConnectionBroken
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.reading import JsonReading
from skerry.protocol.access.json.writing import JsonWriting
from skerry.protocol.access.server import ServerConnection
from skerry.protocol.machine import Address
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType
from skerry.schema.union import unite_deep

READING_COUNT_MAX: Final = 256
"""Cached conversions of the objects of one type for clients with other definitions. There is one
for each version of a program that is connected."""
OWED_COUNT_MAX: Final = 10_000
"""Requests of one client to the node, such as echoes, whose answers wait for a cache replay or for
the storage. A correct client waits for some answers before it sends more."""


class Task(Protocol):
    """Work that is done in slices."""

    def step(self, now_s: float) -> bool:
        """Do the next slice; returns whether the task is complete."""


class Input:
    """Queued input of a client, which was not processed because the client's turn was over."""

    def __init__(self) -> None:
        self.can_wait = True
        """Whether input can be queued; if not, all of it is processed at once."""
        self.is_held = False
        """Whether input is queued. The client's socket is not read as long as it is."""
        self.is_last = False
        """Whether the connection is lost, so that the client is removed after this input."""
        self.is_cutting = False
        """Whether the cutter of the connection has frames left."""
        self.messages: deque[tuple[Header, bytes]] = deque()
        """Messages that were read but not processed, of a connection without frames."""
        self.reading: JsonReading | None = None
        """A large message that is being read in slices."""
        self.fault: ConnectionBroken | None = None
        """A fault in the input after these messages."""
        self.data: deque[bytes] = deque()
        """Bytes after all of that."""


class Client:
    """The state of a client at the node."""

    def __init__(
        self,
        address: Address,
        connection: ServerConnection,
        queue: ClientQueue,
        *,
        origin: Origin,
        limits: ClientLimits,
        opened_ns: int,
    ) -> None:
        self.address = address
        self.connection = connection
        self.queue = queue
        self.origin = origin
        self.limits = limits
        self.opened_ns = opened_ns
        self._rights: Rights | None = None
        self._find_rights: Callable[[], Rights] | None = None
        """Finds the rights after the permissions changed; None if `_rights` is current."""
        self.is_under_review = False
        """Whether its groups and claims are to be checked, since the permissions changed."""
        self.meter: PublishMeter | None = None
        """Measures what it publishes; None if that is not limited."""
        self.address_usage: AddressUsage | None = None
        """What all clients of its address use; None if it has no address."""
        self.holder = Holder("", is_trusted=True)
        """What it uses of the shared quotas."""
        self.unfinished_bytes = 0
        self.nonce: int | None = None
        """The challenge that was sent to it; None if it needs no secret."""
        self.has_extensions = False
        """Whether skerry's additions to the protocol were offered to it."""
        self.is_present = True
        """Whether it is connected."""
        self.is_full = False
        """Whether its transport is full."""
        self.writing: JsonWriting | None = None
        """Frames that are being written as JSON text; until that is done, its queue is paused."""
        self.slots = ConflationSlots(queue)
        self.conflated_output: ConflatedOutput | None = None
        """Sends conflated updates of its groups; None before it joined a group."""
        self.agenda: deque[Task] = deque()
        self.input = Input()
        self.owed_count = 0
        """Requests that wait to be answered, behind other tasks or for the storage."""
        self.owed_bytes = 0
        self.groups: dict[str, None] = {}
        """Types and patterns that it joined, in the order of joining."""
        self.filtered_subscriptions: dict[tuple[str, int], int] = {}
        """The number of comparisons of each filtered subscription, by type and number."""
        self.waiting_count = 0
        """Groups whose cache replay has not begun, so that it may not know their objects."""
        self.subscription_change_count = 0
        """How often it joined or left a group or a filtered subscription."""
        self.described: dict[str, int] = {}
        """Types that it described, with the size of each description in bytes."""
        self.described_memory: dict[str, int] = {}
        """Bytes of memory that each described type counts for, by name."""
        self.described_bytes = 0
        self.received_count = 0
        self.received_bytes = 0
        self.refused_count = 0
        self.running: bool | None = None
        """The value of `running` that it last published in its own DotsClient."""
        self.running_change_count = 0
        self.published_counts: tuple[int, int] = (-1, -1)
        """Published types and `subscription_change_count` in its last published DotsClient."""

    @property
    def client_id(self) -> int:
        """The id that the node gave it."""
        return int(self.queue.client_id)

    @property
    def name(self) -> str:
        """The name that it chose, truncated to the length of names that are accepted."""
        return self.connection.name[:CLIENT_NAME_CHAR_COUNT_MAX]

    @property
    def rights(self) -> Rights | None:
        """What it may do; None until it is accepted."""
        find = self._find_rights
        if find is not None:
            self._find_rights = None
            self._rights = find()
            self.limit_frames()
        return self._rights

    def accept(self, rights: Rights) -> None:
        """Set the rights of a client that was accepted after its handshake."""
        self._rights = rights
        self.limit_frames()

    def renew_rights(self, find: Callable[[], Rights]) -> None:
        """Find the rights again on their next use, since the permissions changed."""
        self._find_rights = find

    def note_described(self, type_name: str, size: int) -> None:
        """Note that the client described a type, for the first time or again."""
        self.described_bytes += size - self.described.get(type_name, 0)
        self.described[type_name] = size

    def reading(self, topic: Topic) -> Projection | None:
        """The projection of a topic's objects for the client; None if they are sent unchanged."""
        own = self.connection.definition(topic.name)
        if own is None or own is topic.type:
            return None
        can_skip = bool(self.queue.has_subjects)
        at = (fingerprint(own), can_skip)
        if at not in topic.readings:
            if len(topic.readings) >= READING_COUNT_MAX:
                topic.readings.clear()
            topic.readings[at] = reading(own, topic.type, can_skip=can_skip)
        found: Projection | None = topic.readings[at]
        return found

    def projected(self, topic: Topic, header: Header, payload: bytes) -> bytes | None:
        """Project an object for the client, and reduce the attributes of its header.

        Returns None if the client cannot read the key of the object.
        """
        found = self.reading(topic)
        if found is not None:
            header.attributes &= found.mask
            return found.project(payload)
        if self.queue.has_subjects or not topic.type_cache.unknown_keys:
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
        """Limit the size of frames to what the client needs for its rights.

        Larger frames are dropped while they are received, so that they take no memory.
        """
        may_publish = self.rights is not None and self.rights.may_publish
        size = (
            max(int(self.queue.source.update_bytes_max), SMALL_FRAME_BYTES_MAX)
            + FRAME_HEADER_BYTES_MAX
        )
        if not may_publish:
            size = SMALL_FRAME_BYTES_MAX
        self.connection.wire.limit_frames(size, skips_large=True)

    def large_refusal(self, name: str, size: int) -> str:
        """Why a frame of `size` bytes is refused, as text for a message."""
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
        """Whether it is accepted and connected."""
        return self.connection.stage in (ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED)

    @property
    def is_free(self) -> bool:
        """Whether its objects need only the checks of the dispatcher."""
        return (
            self.rights is not None
            and self.rights.allows_objects
            and self.meter is None
            and self.is_in
        )

    @property
    def asks_too_much(self) -> bool:
        """Whether too many of its requests and tasks wait, since it does not read the answers."""
        limits = self.limits
        task_count_max = limits.join_count_max + limits.view_count_max + OWED_COUNT_MAX
        return (
            self.owed_count > OWED_COUNT_MAX
            or self.owed_bytes > limits.waiting_bytes_max
            or len(self.agenda) > task_count_max
        )

    def subscribed_groups(self) -> list[str]:
        """The groups that it joined, and the types of its filtered subscriptions."""
        return [*self.groups, *[name for name, _ in self.filtered_subscriptions]]

    def forbidden(self, groups: list[str]) -> str | None:
        """The first of some groups that it may not subscribe to; None if it may join all."""
        rights = self.rights
        assert rights is not None
        for group in groups:
            if not rights.allows_group("subscribe", group):
                return group
        return None

    def asked(self, size: int) -> None:
        """Count a request of `size` bytes that is to be answered."""
        self.owed_count += 1
        self.owed_bytes += size

    def answered(self, size: int) -> None:
        """Subtract a request that was answered."""
        self.owed_count -= 1
        self.owed_bytes -= size

    def when_caught_up(self, work: Callable[[float], None], now_s: float) -> None:
        """Call `work` after all tasks on the client's agenda, or now if there are none."""
        if self.agenda:
            self.agenda.append(do_at_once(work))
        else:
            work(now_s)


class Later:
    """A task that is created when its turn comes, unless there is nothing to do by then."""

    def __init__(self, make: Callable[[], Task | None]) -> None:
        self._make = make
        self._task: Task | None = None
        self._is_made = False

    def step(self, now_s: float) -> bool:
        """Create the task, or do its next slice."""
        if not self._is_made:
            self._is_made = True
            self._task = self._make()
        return self._task is None or self._task.step(now_s)


class do_at_once:  # noqa: N801 - it is used like a function
    """A task of one slice."""

    def __init__(self, work: Callable[[float], None]) -> None:
        self._work = work

    def step(self, now_s: float) -> bool:
        """Do the work."""
        self._work(now_s)
        return True


class Countdown:
    """A task that is complete when `count` other things have happened.

    `work` is called at once then, even if other tasks are before this one on the agenda.
    """

    def __init__(self, count: int, work: Callable[[], None]) -> None:
        self.count = count
        """How many of them have not happened yet."""
        self._work = work

    def one_less(self) -> None:
        """Note that one of them happened."""
        self.count -= 1
        if self.count == 0:
            self._work()

    def step(self, now_s: float) -> bool:
        """Returns whether all of them happened."""
        return self.count == 0
