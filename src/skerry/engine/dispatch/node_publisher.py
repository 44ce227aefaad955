"""Publishes objects of the node itself: status, conflicts, losses, the picture of the system."""

from __future__ import annotations

from collections.abc import Sequence

from skerry.codec.pieces import split
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.routing import Routing
from skerry.engine.services.picture import PublishedPicture, picture_object
from skerry.engine.types.type_table import TypeTable
from skerry.errors import SchemaMismatchError
from skerry.ids import NODE_CLIENT
from skerry.objects.base import Struct, codec_of
from skerry.objects.internal import internal_class
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header
from skerry.protocol.distributor.events import UpdatesLost
from skerry.protocol.distributor.receiving.link_quality import LinkReport
from skerry.schema.internal import LINK_TYPE


class NodePublisher:
    """Publishes objects with the node as their sender.

    Without `has_extensions` it publishes no types of skerry's own.
    """

    def __init__(
        self,
        clock: InputClock,
        dispatcher: Dispatcher,
        routing: Routing,
        types: TypeTable,
        *,
        has_extensions: bool,
    ) -> None:
        self._clock = clock
        self._dispatcher = dispatcher
        self._routing = routing
        self._types = types
        self._has_extensions = has_extensions

    def publish(self, obj: Struct, now_ns: int, is_remove: bool = False, subject: str = "") -> None:
        """Publish an object, or remove it."""
        topic = self._types.topic(obj.descriptor.name)
        assert topic is not None
        header = Header(topic.name)
        header.sent_time = header.server_sent_time = self._clock.wall_s(now_ns)
        header.sender = NODE_CLIENT
        header.is_from_myself = 1
        header.remove_obj = int(is_remove)
        header.attributes = topic.plan.key_mask if is_remove else int(obj.attributes)
        payload = codec_of(type(obj)).encode_only(obj, int(header.attributes))
        pieces = split(topic.plan, payload, 0)
        wall_ns = self._clock.wall_ns(now_ns)
        self._dispatcher.accept(None, topic, header, pieces, subject, wall_ns)

    def has_subscribers(self, type_name: str, subject: str) -> bool:
        """Whether an object of a type under a subject would be delivered to any client."""
        topic = self._types.topic(type_name)
        assert topic is not None
        route = topic.routes.get(subject) or self._routing.resolve(topic, subject)
        return bool(route.queues or route.listeners)

    def publish_conflict(self, conflict: SchemaMismatchError, now_ns: int) -> None:
        """Publish that a client has an incompatible definition of a type."""
        if self._has_extensions:
            self.publish(
                internal_class("SkerryConflict")(
                    typeName=conflict.name,
                    known=conflict.known,
                    offered=conflict.offered,
                    difference=conflict.difference,
                ),
                now_ns,
            )

    def publish_loss(self, lost: UpdatesLost, now_ns: int) -> None:
        """Publish that messages of another node were lost and cannot be delivered here."""
        if self._has_extensions:
            sender = lost.sender
            self.publish(
                internal_class("SkerryLoss")(
                    sender=f"{sender.address}:{sender.sender_id}",
                    application=sender.application,
                    firstDatagram=lost.first_seq,
                    datagramCount=(lost.stop_seq - lost.first_seq) & 0xFFFFFFFF,
                    reason=lost.reason.value,
                    isStopped=lost.is_stopped,
                    time=self._clock.wall_s(now_ns),
                ),
                now_ns,
            )

    def is_wanted(self, type_name: str) -> bool:
        """Whether any client subscribed to an internal type, of which objects are expensive."""
        return self._has_extensions and bool(self._routing.member_count(type_name))

    def publish_link(self, link: LinkReport, receiver: str, now_ns: int) -> None:
        """Publish how well the datagrams of a sender arrive here, if any client subscribed."""
        if self.is_wanted(LINK_TYPE):
            self.publish(link.message(receiver), now_ns)

    def publish_picture(
        self, seen: PublishedPicture, now_ns: int, *, system: str, endpoints: Sequence[str]
    ) -> None:
        if self._has_extensions:
            started_s = seconds_of_ns(self._clock.started_ns)
            picture = picture_object(seen, system=system, endpoints=endpoints, started_s=started_s)
            self.publish(picture, now_ns)
