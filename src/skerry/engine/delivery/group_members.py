"""Clients in groups: who joined a type or a subject pattern, and how they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skerry.codec.pieces import cut, split
from skerry.engine.clients import Client
from skerry.engine.delivery.cache_replay import CacheReplay, QueueReplayOutput
from skerry.engine.delivery.conflation import ConflationSlot
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.topics import Topic, UpdateInTransit, UpdateListener, frame_for
from skerry.limits import CONFLATE_BYTES
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header, copy_header

__all__ = ["Bystander", "Denied", "Listener", "MemberOutput", "Membership", "is_behind"]


class Membership:
    """A client in a group."""

    def __init__(
        self, client: Client, group: str, dispatcher: Dispatcher, *, is_conflating: bool
    ) -> None:
        self.client = client
        self.group = group
        self.is_conflating = is_conflating
        self.active_replay: CacheReplay | None = None
        """Which is under way."""
        self.replay_count = 0
        """Replays that are under way or still to come: a client may join again and again."""
        self.is_waiting = False
        """Whether the first of them is still to come."""
        self.replay_output = QueueReplayOutput(client, int(dispatcher.node))


class MemberOutput:
    """Tells a client of objects of which it was told nothing while it was slow."""

    def __init__(
        self, client: Client, dispatcher: Dispatcher, is_heard: Callable[[Topic, Entry], bool]
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._is_heard = is_heard

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        """Tell of all that was conflated; gives how many frames that took."""
        update = slot.update
        assert update is not None
        queue = self._client.queue
        entry = topic.type_cache.objects.get(key)
        if entry is None and topic.is_cached and not (update.is_remove or slot.is_gone):
            # It went, and the client heard of that: nothing may bring it back.
            return 0
        if not self._may_tell(update.subject):
            # Its rights changed since this was queued.
            return 0
        self._client.connection.describe(topic.type, now_s)
        if slot.is_gone and (entry is None or not self._is_heard(topic, entry)):
            return _deliver(self._client, _departure(update))
        if entry is None:
            # It is gone, or was never kept: the last word about it is what counts.
            return _deliver(self._client, update)
        if not self._may_tell(entry.subject):
            return 0
        header = Header(topic.name)
        header.sent_time = seconds_of_ns(int(entry.sent_ns))
        header.server_sent_time = now_s
        unknown = entry.present & ~topic.plan.mask
        header.attributes = slot.mask | topic.plan.key_mask | unknown
        header.sender = entry.modified_from
        header.remove_obj = 0
        header.is_from_myself = 0
        header.position = entry.position
        header.node = self._dispatcher.node
        pieces = split(topic.plan, entry.payload, 0)
        cut_payload = cut(topic.plan, pieces, header.attributes)
        payload = self._client.projected(topic, header, cut_payload)
        if payload is None:
            return 0
        queue.deliver(frame_for(queue, header, payload, entry.subject), topic.tally)
        return 1

    def _may_tell(self, subject: str) -> bool:
        rights = self._client.rights
        assert rights is not None
        return not subject or rights.allows_objects or rights.allows("subscribe", subject)


class Listener(UpdateListener):
    """A client on a route that has to be described the type, is being replayed to, or conflates.

    It may be in several groups that want the same update, and hears of it once.
    """

    def __init__(self, memberships: Sequence[Membership], forget_routes: Callable[[], None]):
        super().__init__()
        self._memberships = memberships
        self._client = memberships[0].client
        self._is_conflating = all(member.is_conflating for member in memberships)
        self._forget_routes = forget_routes
        self.client_id = self._client.client_id

    def receive(self, update: UpdateInTransit) -> None:
        """Tell the client, now or later."""
        client, topic = self._client, update.topic
        queue = client.queue
        topic.tally.due += 1
        queue.tally.due += 1
        holding = self._holding(update)
        if holding and self._can_wait(update, holding):
            topic.tally.conflated += 1
            queue.tally.conflated += 1
            return
        if not self._is_known(update, holding) and update.entry is not None:
            update = _whole(update, update.entry)
        voice = client.conflated_output
        assert voice is not None
        if client.slots.has(voice, update) or (self._is_conflating and is_behind(client)):
            client.slots.add(voice, update)
            return
        if not client.connection.is_described(topic.type):
            client.connection.describe(topic.type, update.header.server_sent_time)
            # From now on a frame is enough.
            self._forget_routes()
        _deliver_or_count(client, update)

    def leave(self, update: UpdateInTransit) -> None:
        """Tell the client that an object is no longer where it listens."""
        client, topic = self._client, update.topic
        assert client.conflated_output is not None
        client.slots.drop(client.conflated_output, update)
        topic.tally.due += 1
        client.queue.tally.due += 1
        client.connection.describe(topic.type, update.header.server_sent_time)
        _deliver_or_count(client, update)

    def _holding(self, update: UpdateInTransit) -> list[CacheReplay]:
        """The replays that are to tell of the object when its turn comes, or to examine it."""
        replays = [member.active_replay for member in self._memberships]
        topic, key, entry = update.topic, update.key(), update.entry or update.gone
        return [r for r in replays if r is not None and r.holds(topic, key, entry)]

    def _can_wait(self, update: UpdateInTransit, holding: list[CacheReplay]) -> bool:
        """Whether the client hears of it by replays alone, when the turn of the object comes.

        Where it also hears of it by a group that does not replay the object, it does not wait: it
        may leave the others before. What the update clears is not among what a replay tells, so it
        has to say that itself to a client that knows the object from before it joined again.
        """
        is_there, is_alone = update.gone is None, len(holding) == len(self._memberships)
        return is_there and is_alone and not _clears(update)

    def _is_known(self, update: UpdateInTransit, holding: list[CacheReplay]) -> bool:
        """Whether the client knows the object. Replays tell of it first, as far as they can."""
        is_known = self._client.waiting_count == 0
        for replay in holding:
            was = update.gone or update.entry
            assert was is not None
            time_s = update.header.server_sent_time
            is_known = replay.tell_now(update.topic, update.key(), was, time_s) and is_known
        return is_known


class Bystander(UpdateListener):
    """A client that is being replayed to, and does not hear of updates under this subject.

    An object that is still to be told may come under it. It is told as it was then: where it went
    is not what the client asked for, and all that were counted have to be told.
    """

    def __init__(self, member: Membership) -> None:
        super().__init__()
        self._member = member

    def receive(self, update: UpdateInTransit) -> None:
        """Tell the object now if it is one of those."""
        replay = self._member.active_replay
        entry = update.entry or update.gone
        if replay is None or not replay.has_found(update.topic, update.key(), entry):
            return
        was = update.gone
        if was is None:
            assert update.entry is not None
            assert update.before is not None
            present = split(update.topic.plan, update.before, 0).present
            was = update.entry.with_payload(update.before, present)
            was.subject = ""
        time_s = update.header.server_sent_time
        is_told = replay.tell_now(update.topic, update.key(), was, time_s)
        if is_told and update.gone is not None:
            # What was just told must not seem to be there.
            client = self._member.client
            update.topic.tally.due += 1
            client.queue.tally.due += 1
            _deliver_or_count(client, update)


class Denied(UpdateListener):
    """A client that asked for a type, and is not told what is under this subject.

    It may not see it, or has another definition of the type, with other keys.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def receive(self, update: UpdateInTransit) -> None:
        """Count it."""
        for tally in (update.topic.tally, self._client.queue.tally):
            tally.due += 1
            tally.refused += 1


def _deliver_or_count(client: Client, update: UpdateInTransit) -> None:
    """Send a client an update; it counts as refused if the client cannot read its key."""
    if not _deliver(client, update):
        for tally in (update.topic.tally, client.queue.tally):
            tally.refused += 1


def _deliver(client: Client, update: UpdateInTransit) -> int:
    """Send a client an update as it can read it; the number of frames sent: 0 or 1."""
    queue, topic = client.queue, update.topic
    if client.reading(topic) is None:
        queue.deliver(update.frame(queue), topic.tally)
        return 1
    header = copy_header(update.header)
    payload = client.projected(topic, header, update.payload)
    if payload is None:
        return 0
    queue.deliver(UpdateInTransit(topic, header, payload, update.subject).frame(queue), topic.tally)
    return 1


def _whole(update: UpdateInTransit, entry: Entry) -> UpdateInTransit:
    """The same update with all there is of its object, for who may not know it yet."""
    header = copy_header(update.header)
    header.attributes |= entry.present
    whole = UpdateInTransit(update.topic, header, entry.payload, update.subject)
    whole.entry = entry
    return whole


def _departure(update: UpdateInTransit) -> UpdateInTransit:
    """That an object is not where it was, whatever became of it."""
    plan = update.topic.plan
    header = copy_header(update.header)
    header.remove_obj = 1
    header.attributes = plan.key_mask
    payload = cut(plan, split(plan, update.payload, 0), plan.key_mask)
    return UpdateInTransit(update.topic, header, payload, update.subject)


def _clears(update: UpdateInTransit) -> bool:
    """Whether an update names fields that it does not set."""
    assert update.entry is not None
    return (update.header.attributes & update.topic.plan.mask) & ~update.entry.present != 0


def is_behind(client: Client) -> bool:
    """Whether a client takes less than is sent to it, so that conflating is a help."""
    return bool(client.queue.is_paused) and client.queue.size > CONFLATE_BYTES
