"""Clients in groups: who joined a type or a subject pattern, and how they are told."""

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

__all__ = [
    "CONFLATE_BYTES",
    "Bystander",
    "Denied",
    "Listener",
    "MemberOutput",
    "Membership",
    "is_behind",
]

CONFLATE_BYTES: Final = 64 * 1024
"""Bytes queued for a client that does not read, above which its conflating subscriptions stop
queueing updates: about what a network transmits in a moment."""


class Membership:
    """A client in a group."""

    def __init__(self, client: Client, group: str, hub: Dispatcher, *, is_conflating: bool) -> None:
        self.client = client
        self.group = group
        self.is_conflating = is_conflating
        self.active_replay: CacheReplay | None = None
        """Which is under way."""
        self.replay_count = 0
        """Replays that are under way or still to come: a client may join again and again."""
        self.is_waiting = False
        """Whether the first of them is still to come."""
        self.teller = QueueReplayOutput(client, int(hub.node))


class MemberOutput:
    """Tells a client of objects of which it was told nothing while it was slow."""

    def __init__(
        self, client: Client, hub: Dispatcher, is_heard: Callable[[Topic, Entry], bool]
    ) -> None:
        self._client = client
        self._hub = hub
        self._is_heard = is_heard

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        """Tell of all that was conflated; gives how many frames that took."""
        news = slot.news
        assert news is not None
        lane = self._client.lane
        entry = topic.shelf.objects.get(key)
        if entry is None and topic.is_cached and not (news.is_remove or slot.is_gone):
            # It went, and the client heard of that: nothing may bring it back.
            return 0
        if not self._may_tell(news.subject):
            # Its rights changed since this was queued.
            return 0
        self._client.connection.describe(topic.type, now_s)
        if slot.is_gone and (entry is None or not self._is_heard(topic, entry)):
            return _deliver(self._client, _departure(news))
        if entry is None:
            # It is gone, or was never kept: the last word about it is what counts.
            return _deliver(self._client, news)
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
        header.node = self._hub.node
        pieces = split(topic.plan, entry.payload, 0)
        cut_payload = cut(topic.plan, pieces, header.attributes)
        payload = self._client.projected(topic, header, cut_payload)
        if payload is None:
            return 0
        lane.deliver(frame_for(lane, header, payload, entry.subject), topic.tally)
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

    def hear(self, news: UpdateInTransit) -> None:
        """Tell the client, now or later."""
        client, topic = self._client, news.topic
        lane = client.lane
        topic.tally.due += 1
        lane.tally.due += 1
        holding = self._holding(news)
        if holding and self._can_wait(news, holding):
            topic.tally.conflated += 1
            lane.tally.conflated += 1
            return
        if not self._is_known(news, holding) and news.entry is not None:
            news = _whole(news, news.entry)
        voice = client.voice
        assert voice is not None
        if client.slots.has(voice, news) or (self._is_conflating and is_behind(client)):
            client.slots.add(voice, news)
            return
        if not client.connection.is_described(topic.type):
            client.connection.describe(topic.type, news.header.server_sent_time)
            # From now on a frame is enough.
            self._forget_routes()
        _deliver_or_count(client, news)

    def leave(self, news: UpdateInTransit) -> None:
        """Tell the client that an object is no longer where it listens."""
        client, topic = self._client, news.topic
        assert client.voice is not None
        client.slots.drop(client.voice, news)
        topic.tally.due += 1
        client.lane.tally.due += 1
        client.connection.describe(topic.type, news.header.server_sent_time)
        _deliver_or_count(client, news)

    def _holding(self, news: UpdateInTransit) -> list[CacheReplay]:
        """The replays that are to tell of the object when its turn comes, or to examine it."""
        replays = [member.active_replay for member in self._memberships]
        topic, key, entry = news.topic, news.key(), news.entry or news.gone
        return [r for r in replays if r is not None and r.holds(topic, key, entry)]

    def _can_wait(self, news: UpdateInTransit, holding: list[CacheReplay]) -> bool:
        """Whether the client hears of it by replays alone, when the turn of the object comes.

        Where it also hears of it by a group that does not replay the object, it does not wait: it
        may leave the others before. What the update clears is not among what a replay tells, so it
        has to say that itself to a client that knows the object from before it joined again.
        """
        is_there, is_alone = news.gone is None, len(holding) == len(self._memberships)
        return is_there and is_alone and not _clears(news)

    def _is_known(self, news: UpdateInTransit, holding: list[CacheReplay]) -> bool:
        """Whether the client knows the object. Replays tell of it first, as far as they can."""
        is_known = self._client.waiting_count == 0
        for replay in holding:
            was = news.gone or news.entry
            assert was is not None
            time_s = news.header.server_sent_time
            is_known = replay.tell_now(news.topic, news.key(), was, time_s) and is_known
        return is_known


class Bystander(UpdateListener):
    """A client that is being replayed to, and does not hear of updates under this subject.

    An object that is still to be told may come under it. It is told as it was then: where it went
    is not what the client asked for, and all that were counted have to be told.
    """

    def __init__(self, member: Membership) -> None:
        super().__init__()
        self._member = member

    def hear(self, news: UpdateInTransit) -> None:
        """Tell the object now if it is one of those."""
        replay = self._member.active_replay
        entry = news.entry or news.gone
        if replay is None or not replay.has_found(news.topic, news.key(), entry):
            return
        was = news.gone
        if was is None:
            assert news.entry is not None
            assert news.before is not None
            present = split(news.topic.plan, news.before, 0).present
            was = news.entry.with_payload(news.before, present)
            was.subject = ""
        time_s = news.header.server_sent_time
        is_told = replay.tell_now(news.topic, news.key(), was, time_s)
        if is_told and news.gone is not None:
            # What was just told must not seem to be there.
            client = self._member.client
            news.topic.tally.due += 1
            client.lane.tally.due += 1
            _deliver_or_count(client, news)


class Denied(UpdateListener):
    """A client that asked for a type, and is not told what is under this subject.

    It may not see it, or has another definition of the type, with other keys.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def hear(self, news: UpdateInTransit) -> None:
        """Count it."""
        for tally in (news.topic.tally, self._client.lane.tally):
            tally.due += 1
            tally.refused += 1


def _deliver_or_count(client: Client, news: UpdateInTransit) -> None:
    """Send a client an update; it counts as refused if the client cannot read its key."""
    if not _deliver(client, news):
        for tally in (news.topic.tally, client.lane.tally):
            tally.refused += 1


def _deliver(client: Client, news: UpdateInTransit) -> int:
    """Send a client an update as it can read it; the number of frames sent: 0 or 1."""
    lane, topic = client.lane, news.topic
    if client.reading(topic) is None:
        lane.deliver(news.frame(lane), topic.tally)
        return 1
    header = copy_header(news.header)
    payload = client.projected(topic, header, news.payload)
    if payload is None:
        return 0
    lane.deliver(UpdateInTransit(topic, header, payload, news.subject).frame(lane), topic.tally)
    return 1


def _whole(news: UpdateInTransit, entry: Entry) -> UpdateInTransit:
    """The same update with all there is of its object, for who may not know it yet."""
    header = copy_header(news.header)
    header.attributes |= entry.present
    whole = UpdateInTransit(news.topic, header, entry.payload, news.subject)
    whole.entry = entry
    return whole


def _departure(news: UpdateInTransit) -> UpdateInTransit:
    """That an object is not where it was, whatever became of it."""
    plan = news.topic.plan
    header = copy_header(news.header)
    header.remove_obj = 1
    header.attributes = plan.key_mask
    payload = cut(plan, split(plan, news.payload, 0), plan.key_mask)
    return UpdateInTransit(news.topic, header, payload, news.subject)


def _clears(news: UpdateInTransit) -> bool:
    """Whether an update names fields that it does not set."""
    assert news.entry is not None
    return (news.header.attributes & news.topic.plan.mask) & ~news.entry.present != 0


def is_behind(client: Client) -> bool:
    """Whether a client takes less than is sent to it, so that conflating is a help."""
    return bool(client.lane.is_paused) and client.lane.size > CONFLATE_BYTES
