"""Filtered subscriptions: a client receives the objects of a type that match a condition.

The condition is tested on the whole object, not on the update. When an object begins to match, the
client receives it with all its fields. When an object ceases to match or is removed, the client
receives a remove with its key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from skerry.codec.pieces import LARGE_BYTES, canonical_key, cut, split
from skerry.engine.admission.shared_quotas import Holder, Resource, SharedQuotas
from skerry.engine.clients import Client
from skerry.engine.delivery.cache_replay import CacheReplay, ReplayOutput
from skerry.engine.delivery.conflation import ConflationSlot
from skerry.engine.delivery.group_members import is_behind, may_see
from skerry.engine.delivery.query import Query, compile_filter, empty_query
from skerry.engine.delivery.replay_parts import FoundPart, ReplayWalk
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.dispatcher import BYTES_PER_DELIVERY, Dispatcher
from skerry.engine.dispatch.topics import (
    Topic,
    UpdateInTransit,
    UpdateListener,
    frame_for,
    replay_header,
)
from skerry.errors import FilterError, LimitExceeded
from skerry.limits import REPLAY_SORTED_COUNT_MAX
from skerry.protocol.access.header import Header, copy_header
from skerry.schema.model import StructType
from skerry.schema.union import unite_deep

_KEYS_STEP: Final = 32
_KEYS_PART: Final = 8
"""Keys are counted in advance: `_KEYS_STEP` more, and one more for each `_KEYS_PART` keys."""
_FLOOD_FACTOR: Final = 10
"""How many times `waiting_bytes_max` the filtered subscriptions of a client may queue in one turn.
More cannot be queued by a client that reads, unless many of its subscriptions match an object that
is about as large as that bound."""
_PARTS_PER_WORK_UNIT: Final = 8
"""Parts of a condition that can be tested in one work unit."""


class FilteredSubscription(UpdateListener):
    def __init__(
        self,
        client: Client,
        topic: Topic,
        dispatcher: Dispatcher,
        shares: SharedQuotas,
        *,
        number: int,
        query: Query,
        filter_: Any,
        type_: StructType,
        is_conflating: bool,
        is_replacing: bool = False,
    ) -> None:
        super().__init__()
        self.client = client
        self.topic = topic
        self.number = number
        """The number that the client chose."""
        self.active_replay: CacheReplay | None = None
        self.is_closed = False
        """Whether the client ended the subscription."""
        self._walk: ReplayWalk | None = None
        """The examination of all cached objects, after which the matching ones are sent."""
        self._is_replacing = is_replacing
        """Whether the client may know objects by a former subscription of the same number."""
        self._dispatcher = dispatcher
        self._compiled = query
        self._matching = b""  # the last message of which `skips` found that it matches
        self._filter = filter_
        self._type = type_
        """The type for which the condition was compiled."""
        self._is_outdated = False
        """Whether the definition of the type changed since."""
        self._is_conflating = is_conflating
        self.replay_output = _FilteredOutput(self)
        self._inside = _Keys(shares, client.holder)
        """Keys of the matching objects."""
        self._found: OrderedDict[bytes, None] = OrderedDict()
        """The same during the examination, in the order in which objects are sent later."""
        self._described: Any = None
        self._received: Any = None
        """The served definition and the client's own one when the type was described last."""

    @property
    def part_count(self) -> int:
        """The number of comparisons in the condition."""
        return self._query.part_count

    def topic_redefined(self) -> None:
        """Compile the condition for another definition of the type, on its next use.

        It matches the same objects, since their bytes have not changed.
        """
        self._is_outdated = True

    @property
    def _query(self) -> Query:
        if self._is_outdated:
            self._is_outdated = False
            self._compile()
        return self._compiled

    def _compile(self) -> None:
        served = self.client.query_type(self.topic)
        # A field in the condition may have been removed with its last publisher.
        united = unite_deep(self._type, served)
        self._type = united if isinstance(united, StructType) else served
        try:
            self._compiled = compile_filter(self._filter, self._type)
        except FilterError:
            self._compiled = empty_query(self._type)
        self._matching = b""

    def begin_selection(self) -> None:
        """Begin to examine all objects; until that is done, matching objects are only noted."""
        self._walk = ReplayWalk(self.topic.type_cache)

    def examine_slice(self) -> list[bytes] | OrderedDict[bytes, None] | None:
        """Examine the next objects, as many as the client's turn allows.

        Returns None while objects are left, and then the keys of the matching ones, which are to be
        sent now. Raises LimitExceeded if more objects match than the client may have.
        """
        walk, queue, plan = self._walk, self.client.queue, self.topic.plan
        assert walk is not None
        cost = 1 + self.part_count // _PARTS_PER_WORK_UNIT
        while not walk.is_over():
            if queue.work_left <= 0:
                return None
            queue.work_left -= cost
            entry = walk.advance()
            if entry is not None and self._is_wanted(entry):
                key = canonical_key(plan, split(plan, entry.payload, 0))
                self._inside.add(key)
                if self._inside.error is not None:
                    raise self._inside.error
                self._found[key] = None
        self._end_selection()
        found, self._found = self._found, OrderedDict()
        return list(found) if len(found) <= REPLAY_SORTED_COUNT_MAX else found

    def _end_selection(self) -> None:
        if self._walk is not None:
            self._walk.close()
            self._walk = None

    def close(self) -> None:
        self.is_closed = True
        self._end_selection()
        # Released now: the subscription and its output refer to each other, and the collector
        # examines such rings seldom (`runtime.collector`).
        self._found = OrderedDict()
        self._inside.clear()
        if self.active_replay is not None:
            self.active_replay.cancel()

    def excluding(self) -> Iterator[int]:
        """Exclude objects that the client may not see any more and that were not sent yet.

        It examines them step by step, and yields the work units of each step. The subscription is
        neither examined nor replayed in the meantime.
        """
        if self._walk is not None:
            for _ in FoundPart(self.topic, self._found).excluding(self._exclude):
                yield 1
        elif self.active_replay is not None:
            yield from self.active_replay.excluding(self._exclude)

    def _exclude(self, topic: Topic, entry: Entry) -> bool:
        """Whether the client may not see an unsent object, which is then outside the condition."""
        if self._may_see(entry.subject):
            return False
        self._inside.discard(canonical_key(topic.plan, split(topic.plan, entry.payload, 0)))
        return True

    def skips(self, payload: bytes, subject: str) -> bool:
        """Whether a message does not match; then it is counted, and not received."""
        predicate = self._compiled.predicate
        if subject or self._is_outdated or predicate is None:
            return False
        if predicate.holds(payload):
            self._matching = payload
            return False
        self._dispatcher.work += predicate.part_count
        for tally in (self.topic.tally, self.client.queue.tally):
            tally.due += 1
            tally.filtered += 1
        return True

    def receive(self, update: UpdateInTransit) -> None:
        """Deliver an update if its object matches, matched before, or begins to match."""
        queue, topic = self.client.queue, update.topic
        topic.tally.due += 1
        queue.tally.due += 1
        self._dispatcher.work += self.part_count
        if not topic.is_cached:
            self._receive_message(update)
            return
        key, now_s = update.key(), update.header.server_sent_time
        if self._walk is not None:
            self._note(update, key, now_s)
            return
        # Before anything else, since a replay must know each object that it is still to send.
        if self._is_replayed_later(update, key, now_s):
            topic.tally.conflated += 1
            queue.tally.conflated += 1
        elif self._must_wait(update):
            self.client.slots.add(self, update)
        elif not self._send_change(key, int(update.header.attributes), update, now_s):
            topic.tally.filtered += 1
            queue.tally.filtered += 1

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        """Send conflated updates as one; returns the number of frames."""
        assert slot.update is not None
        if not topic.is_cached:
            if not self._may_see(slot.update.subject):
                return 0
            self._send_message(slot.update)
            return 1
        return self._send_change(key, slot.mask, slot.update, now_s)

    def replay(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Send a cached object that matches; returns its size in bytes."""
        queue = self.client.queue
        header = replay_header(topic, entry, left, now_s, int(self._dispatcher.node))
        topic.tally.due += 1
        queue.tally.due += 1
        present = int(entry.present)
        return self._send(header, entry.payload, present, present, entry.subject, now_s)

    def _note(self, update: UpdateInTransit, key: bytes, now_s: float) -> None:
        """Note what an update changes in the objects that are sent after the examination."""
        queue, topic = self.client.queue, self.topic
        if update.entry is not None and self._is_wanted(update.entry):
            self._inside.add(key)
            self._found[key] = None
            topic.tally.conflated += 1
            queue.tally.conflated += 1
            return
        self._inside.discard(key)
        self._found.pop(key, None)
        if self._is_replacing:
            self._send_remove(update, now_s)
        else:
            topic.tally.filtered += 1
            queue.tally.filtered += 1

    def _is_replayed_later(self, update: UpdateInTransit, key: bytes, now_s: float) -> bool:
        """Whether the replay will send the object in its state at that time."""
        replay = self.active_replay
        entry = update.entry or update.gone
        if replay is None or not replay.holds(update.topic, key, entry):
            return False
        if self.client.is_under_review and not self._may_see(update.subject):
            # The object may have been hidden before, and was not excluded yet.
            assert entry is not None
            replay.drop(update.topic, key, entry)
            self._inside.discard(key)
            return False
        if update.entry is not None and self._is_wanted(update.entry):
            return True
        # It ceases to match before it was sent. It is sent as it was, so that the count is right.
        was = update.gone
        if was is None:
            assert update.entry is not None
            assert update.before is not None
            present = split(update.topic.plan, update.before, 0).present
            was = update.entry.with_payload(update.before, present)
        replay.send_now(update.topic, key, was, now_s)
        return False

    def _send_change(
        self, key: bytes, attributes: int, update: UpdateInTransit, now_s: float
    ) -> int:
        """Send what an update changes for the client; returns the number of frames."""
        entry = self.topic.type_cache.objects.get(key)
        was_inside = self._inside.has(key)
        if entry is not None and self._is_wanted(entry):
            if not was_inside:
                self._inside.add(key)
                attributes = int(entry.present)
            elif self._is_irrelevant(attributes):
                return 0
            header = self._header(update.header)
            present = int(entry.present)
            self._send(header, entry.payload, present, attributes, entry.subject, now_s)
            return 1
        if not was_inside:
            return 0
        self._inside.discard(key)
        self._send_remove(update, now_s)
        return 1

    def _send_remove(self, update: UpdateInTransit, now_s: float) -> None:
        """Send that an object does not match, or does not match any more."""
        header = self._header(update.header)
        header.remove_obj = 1
        subject = update.subject if self._may_see(update.subject) else ""
        self._send(header, update.payload, -1, 0, subject, now_s)

    def _is_wanted(self, entry: Entry) -> bool:
        """Whether an object matches in its current state, and the client may see it."""
        return self._may_see(entry.subject) and self._query.matches(entry.payload)

    def _may_see(self, subject: str) -> bool:
        return not subject or may_see(self.client, subject)

    def _must_wait(self, update: UpdateInTransit) -> bool:
        slots = self.client.slots
        has_slot = slots.waiting_count > 0 and slots.has(self, update)
        return has_slot or (self._is_conflating and is_behind(self.client))

    def _is_irrelevant(self, attributes: int) -> bool:
        """Whether an update names only fields that the client did not select."""
        named = attributes & ~int(self.topic.plan.key_mask)
        return named != 0 and named & self._query.mask == 0

    def _receive_message(self, update: UpdateInTransit) -> None:
        """Deliver a message if it matches; its type is not cached."""
        tallies = (update.topic.tally, self.client.queue.tally)
        if not self._may_see(update.subject):
            for tally in tallies:
                tally.refused += 1
        elif self._matching is not update.payload and not self._query.matches(update.payload):
            for tally in tallies:
                tally.filtered += 1
        elif self._must_wait(update):
            self.client.slots.add(self, update)
        else:
            self._send_message(update)

    def _send_message(self, update: UpdateInTransit) -> None:
        now_s, attributes = update.header.server_sent_time, int(update.header.attributes)
        # A payload that was checked has only fields that the header names.
        present = attributes if update.is_described else -1
        header = self._header(update.header)
        self._send(header, update.payload, present, attributes, update.subject, now_s)

    def _describe(self, now_s: float) -> None:
        """Describe the type, unless its definitions are the same as the last time."""
        connection, type_ = self.client.connection, self.topic.type
        received = connection.received.get(type_.name)
        if self._described is not type_ or self._received is not received:
            connection.describe(type_, now_s)
            self._described, self._received = type_, received

    def _header(self, base: Header) -> Header:
        header = copy_header(base)
        header.remove_obj = 0
        header.is_from_myself = 0
        return header

    def _send(
        self,
        header: Header,
        payload: bytes,
        present: int,
        attributes: int,
        subject: str,
        now_s: float,
    ) -> int:
        """Send an object or an update; `present` is its property set, -1 if that is not known."""
        queue, plan = self.client.queue, self.topic.plan
        if queue.size > _FLOOD_FACTOR * self.client.limits.waiting_bytes_max:
            # Many subscriptions to a large object, each of which copies it. The client is
            # disconnected before anything is sent to it.
            queue.is_flooded = True
            self.topic.tally.expired += 1
            queue.tally.expired += 1
            return 0
        header.attributes = (attributes & self._query.mask) | int(plan.key_mask)
        header.subscription_id = self.number
        self._describe(now_s)
        wanted = payload
        if present & ~int(header.attributes):
            wanted = cut(plan, split(plan, payload, 0), header.attributes)
        projected = self.client.projected(self.topic, header, wanted)
        if projected is None:
            self.topic.tally.refused += 1
            queue.tally.refused += 1
            return 0
        frame = frame_for(queue, header, projected, subject)
        if len(frame) > LARGE_BYTES:
            self._dispatcher.work += len(frame) // BYTES_PER_DELIVERY
        queue.deliver(frame, self.topic.tally)
        return len(frame)


class _Keys:
    """Keys of the matching objects, counted for the quota of the client.

    They are counted in steps, since counting takes longer than adding a key, and before they are
    added. Past a bound they are added all the same: the node disconnects a client then.
    """

    def __init__(self, shares: SharedQuotas, holder: Holder) -> None:
        self._shares = shares
        self._holder = holder
        self._keys: set[bytes] = set()
        self._counted = 0
        self.error: LimitExceeded | None = None
        """The bound that was exceeded when a key was added."""

    def has(self, key: bytes) -> bool:
        return key in self._keys

    def add(self, key: bytes) -> None:
        self._keys.add(key)
        count = len(self._keys)
        if count > self._counted:
            self._count(count + count // _KEYS_PART + _KEYS_STEP)

    def discard(self, key: bytes) -> None:
        keys = self._keys
        keys.discard(key)
        if len(keys) + _KEYS_STEP < self._counted // 2:
            # A set keeps its memory when keys are removed.
            self._keys = keys = set(keys)
            self._count(len(keys) + len(keys) // _KEYS_PART)

    def clear(self) -> None:
        self._keys = set()
        self._count(0)

    def _count(self, count: int) -> None:
        shares, holder, resource = self._shares, self._holder, Resource.VIEW_OBJECTS
        if not holder.is_present:
            return
        shares.set(holder, resource, holder.used[resource] + count - self._counted)
        is_more = count > self._counted
        self._counted = count
        if is_more:
            excess = shares.note_excess(holder, resource)
            self.error = None if excess is None else excess.error


class FilteredObjects:
    """A task that finds the objects of a filtered subscription, and then sends them.

    `refuse` is called with the error if more objects match than the client may have.
    """

    def __init__(
        self,
        subscription: FilteredSubscription,
        finish: Callable[[float], None],
        refuse: Callable[[LimitExceeded], None],
    ) -> None:
        self._subscription = subscription
        self._finish = finish
        self._refuse = refuse
        subscription.begin_selection()
        self._replay: CacheReplay | None = None

    def step(self, now_s: float) -> bool:
        """Examine or send the next slice; returns whether that was the last."""
        subscription = self._subscription
        if self._replay is None:
            if subscription.is_closed:
                # Also for a closed one, since the client counts the answers to its joins.
                self._finish(now_s)
                return True
            try:
                keys = subscription.examine_slice()
            except LimitExceeded as error:
                self._refuse(error)
                return True
            if keys is None:
                return False
            self._replay = CacheReplay(
                subscription.replay_output, [(subscription.topic, keys)], self._end
            )
            subscription.active_replay = self._replay
        return self._replay.step(now_s)

    def _end(self, now_s: float) -> None:
        self._subscription.active_replay = None
        self._finish(now_s)


class _FilteredOutput(ReplayOutput):
    """Sends the objects of a filtered subscription."""

    def __init__(self, subscription: FilteredSubscription) -> None:
        super().__init__(subscription.client.queue)
        self._subscription = subscription

    def send(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Send an object, after which `left` follow; returns its size in bytes."""
        return self._subscription.replay(topic, entry, left, now_s)
