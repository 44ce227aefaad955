"""The members of groups: how updates are delivered to clients that joined a type or a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from skerry.codec.pieces import cut, split
from skerry.engine.clients import Client
from skerry.engine.delivery.cache_replay import CacheReplay, QueueReplayOutput
from skerry.engine.delivery.conflation import ConflationSlot
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.topics import Topic, UpdateInTransit, UpdateListener, frame_for
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header, copy_header

CONFLATE_BYTES: Final = 64 * 1024
"""Bytes queued for a client that does not read, above which its conflating subscriptions stop
queueing updates: about what a network transmits in a moment."""


class Membership:
    """A client in a group."""

    def __init__(
        self, client: Client, group: str, dispatcher: Dispatcher, *, is_conflating: bool
    ) -> None:
        self.client = client
        self.group = group
        self.is_conflating = is_conflating
        self.active_replay: CacheReplay | None = None
        """The cache replay that is in progress."""
        self.replay_count = 0
        """Replays that are in progress or waiting: a client may join the same group repeatedly."""
        self.is_waiting = False
        """Whether the first replay has not begun yet."""
        self.replay_output = QueueReplayOutput(client, int(dispatcher.node))


class MemberOutput:
    """Sends conflated updates of all groups of a client."""

    def __init__(
        self,
        client: Client,
        dispatcher: Dispatcher,
        is_subscribed: Callable[[Topic, Entry], bool],
    ) -> None:
        """`is_subscribed` returns whether the client is in a group that selects an object."""
        self._client = client
        self._dispatcher = dispatcher
        self._is_subscribed = is_subscribed

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        """Send the last state of an object; returns the number of frames."""
        update = slot.update
        assert update is not None
        queue = self._client.queue
        entry = topic.type_cache.objects.get(key)
        if entry is None and topic.is_cached and not (update.is_remove or slot.is_gone):
            # The client already received the removal, and must not see the object again.
            return 0
        if not self._may_send(update.subject):
            # The client's rights changed since the update was queued.
            return 0
        self._client.connection.describe(topic.type, now_s)
        if slot.is_gone and (entry is None or not self._is_subscribed(topic, entry)):
            return _deliver(self._client, _removal(update))
        if entry is None:
            # The object is removed or was never cached, so the last update is sent.
            return _deliver(self._client, update)
        if not self._may_send(entry.subject):
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

    def _may_send(self, subject: str) -> bool:
        return may_see(self._client, subject)


class MemberListener(UpdateListener):
    """A member that needs a description of the type, has a cache replay, or conflates.

    The client may be in several groups that select the same update, and receives it once.
    """

    def __init__(self, memberships: Sequence[Membership], forget_routes: Callable[[], None]):
        super().__init__()
        self._memberships = memberships
        self._client = memberships[0].client
        self._is_conflating = all(member.is_conflating for member in memberships)
        self._forget_routes = forget_routes
        self.client_id = self._client.client_id

    def receive(self, update: UpdateInTransit) -> None:
        """Deliver an update now, conflate it, or leave it to the cache replay."""
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
        output = client.conflated_output
        assert output is not None
        if client.slots.has(output, update) or (self._is_conflating and is_behind(client)):
            client.slots.add(output, update)
            return
        if not client.connection.is_described(topic.type):
            client.connection.describe(topic.type, update.header.server_sent_time)
            # From now on the client needs only frames.
            self._forget_routes()
        _deliver_or_count(client, update)

    def object_left(self, update: UpdateInTransit) -> None:
        """Deliver the remove of an object that is no longer under a subscribed subject."""
        client, topic = self._client, update.topic
        assert client.conflated_output is not None
        client.slots.drop(client.conflated_output, update)
        topic.tally.due += 1
        client.queue.tally.due += 1
        client.connection.describe(topic.type, update.header.server_sent_time)
        _deliver_or_count(client, update)

    def _holding(self, update: UpdateInTransit) -> list[CacheReplay]:
        """The replays that are still to send or to examine the object."""
        replays = [member.active_replay for member in self._memberships]
        topic, key, entry = update.topic, update.key(), update.entry or update.gone
        return [r for r in replays if r is not None and r.holds(topic, key, entry)]

    def _can_wait(self, update: UpdateInTransit, holding: list[CacheReplay]) -> bool:
        """Whether the client receives the update by its replays, when the object's turn comes.

        If the client also receives it by a group that does not replay the object, the update does
        not wait, since the client may leave the other groups before. An update that clears fields
        does not wait either: a replay does not send cleared fields, and a client that joined again
        may know the object with these fields set.
        """
        exists, is_alone = update.gone is None, len(holding) == len(self._memberships)
        return exists and is_alone and not _clears(update)

    def _is_known(self, update: UpdateInTransit, holding: list[CacheReplay]) -> bool:
        """Whether the client knows the object, which the replays send first as far as they can."""
        is_known = self._client.waiting_count == 0
        for replay in holding:
            was = update.gone or update.entry
            assert was is not None
            time_s = update.header.server_sent_time
            is_known = replay.send_now(update.topic, update.key(), was, time_s) and is_known
        return is_known


class ReplayListener(UpdateListener):
    """A client with a cache replay that does not subscribe to updates under this subject.

    An object that is still to be sent may move to this subject. The replay sends it as it was
    before: the new subject is not what the client subscribed to, and the counted objects must all
    be sent.
    """

    def __init__(self, member: Membership) -> None:
        super().__init__()
        self._member = member

    def receive(self, update: UpdateInTransit) -> None:
        """Send the object now if the replay is still to send it."""
        replay = self._member.active_replay
        entry = update.entry or update.gone
        if replay is None or not replay.has_found(update.topic, update.key(), entry):
            return
        client = self._member.client
        if client.is_under_review and not may_see(client, update.subject):
            # The object may have been hidden before, and was not excluded yet.
            assert entry is not None
            replay.drop(update.topic, update.key(), entry)
            return
        was = update.gone
        if was is None:
            assert update.entry is not None
            assert update.before is not None
            present = split(update.topic.plan, update.before, 0).present
            was = update.entry.with_payload(update.before, present)
            was.subject = ""
        time_s = update.header.server_sent_time
        is_sent = replay.send_now(update.topic, update.key(), was, time_s)
        if is_sent and update.gone is not None:
            # The client must not keep an object that is removed.
            update.topic.tally.due += 1
            client.queue.tally.due += 1
            _deliver_or_count(client, update)


class DeniedListener(UpdateListener):
    """A subscriber of a type that does not receive updates under this subject.

    It has no permission for the subject, or it has a definition of the type with other keys.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def receive(self, update: UpdateInTransit) -> None:
        """Count the update as refused."""
        for tally in (update.topic.tally, self._client.queue.tally):
            tally.due += 1
            tally.refused += 1


def _deliver_or_count(client: Client, update: UpdateInTransit) -> None:
    """Deliver an update; it counts as refused if the client cannot read its key."""
    if not _deliver(client, update):
        for tally in (update.topic.tally, client.queue.tally):
            tally.refused += 1


def _deliver(client: Client, update: UpdateInTransit) -> int:
    """Deliver an update as the client can read it; returns the number of frames: 0 or 1."""
    queue, topic = client.queue, update.topic
    if client.reading(topic) is None:
        queue.deliver(update.frame(queue), topic.tally)
        return 1
    header = copy_header(update.header)
    payload = client.projected(topic, header, update.payload)
    if payload is None:
        return 0
    projected = UpdateInTransit(topic, header, payload, update.subject)
    queue.deliver(projected.frame(queue), topic.tally)
    return 1


def _whole(update: UpdateInTransit, entry: Entry) -> UpdateInTransit:
    """The same update with all fields of its object, for a client that may not know it yet."""
    header = copy_header(update.header)
    header.attributes |= entry.present
    whole = UpdateInTransit(update.topic, header, entry.payload, update.subject)
    whole.entry = entry
    return whole


def _removal(update: UpdateInTransit) -> UpdateInTransit:
    """A remove of the object of an update, from the subject of the update."""
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


def may_see(client: Client, subject: str) -> bool:
    """Whether a client may see a subject; it may see all default subjects."""
    rights = client.rights
    assert rights is not None
    return not subject or rights.allows_objects or rights.allows("subscribe", subject)


def is_behind(client: Client) -> bool:
    """Whether a client reads slower than updates are queued, so that conflation helps."""
    return bool(client.queue.is_paused) and client.queue.size > CONFLATE_BYTES
