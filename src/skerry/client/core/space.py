"""The operations of a space: publish, subscribe, hold objects, flush. Without I/O.

Callbacks are called while bytes are received, so that a container has the object of an event when
the callback runs. Everything else is reported to the program by events of the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from skerry.client.core.arguments import check_class, check_condition, check_group, check_type_names
from skerry.client.core.event_queue import OnSlow
from skerry.client.core.flushes import Flush
from skerry.client.core.node_answers import TypesRequest
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.node_subscription import NodeSubscription, refuse
from skerry.client.core.received_types import BYTES_NAME, ReceivedType
from skerry.client.core.requests_and_claims import RequestsAndClaims
from skerry.client.core.send_buffer import raw_payload
from skerry.client.core.states import SpaceState
from skerry.client.core.type_route import Target
from skerry.errors import Disconnected, LocalProtocolError
from skerry.objects.base import Struct, selection
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.patterns import check_subject


class SpaceCore:
    """A space of the node at an address. A driver drives its `connection`.

    With a lock, any thread may publish. All other methods are for one thread.
    """

    def __init__(self, connection: NodeConnection) -> None:
        self.connection = connection
        self.requests_and_claims = RequestsAndClaims(self.connection)
        self.config = self.connection.config
        self.types = self.connection.types
        self.intake = self.connection.intake
        self.subscriptions = self.connection.subscriptions
        self.buffer = self.connection.buffer

    # -- publishing

    def publish(
        self, obj: Struct, now_s: float, only: Iterable[str] | None = None, subject: str = ""
    ) -> bool:
        """Queue an object, or the fields named by `only`. True if the driver must be woken."""
        self._check_open()
        cls = type(obj)
        plan = self.types.send_plan(cls)
        if subject:
            self._check_publish_subject(subject)
        selected = -1 if only is None else int(selection(cls, only))
        frame = plan.update(obj, selected, subject, now_s, self.connection.frame_wire)
        is_due = self.buffer.add(frame, cls.descriptor, plan.plan.name)
        self.buffer.waiting.templates[cls] = plan.template
        if subject and only is None:
            self.buffer.note_object_under(cls, subject, plan)
        return is_due

    def publish_bytes(self, subject: str, data: bytes, now_s: float) -> bool:
        """Queue bytes under a subject. True if the driver must be woken."""
        self._check_open()
        if not isinstance(data, bytes):
            raise LocalProtocolError(f"expected bytes for {subject:.60}, got {type(data).__name__}")
        self._check_publish_subject(subject)
        cls = internal_class(BYTES_NAME)
        plan = self.types.send_plan(cls)
        frame = plan.raw(raw_payload(data), subject, now_s, self.connection.frame_wire)
        is_due = self.buffer.add(frame, cls.descriptor, BYTES_NAME)
        self.buffer.note_subject(subject)
        return is_due

    def remove(self, obj: Struct, now_s: float, subject: str = "") -> bool:
        """Queue the removal of the object with this key."""
        self._check_open()
        cls = type(obj)
        plan = self.types.send_plan(cls)
        if not plan.is_cached:
            raise LocalProtocolError(f"{plan.plan.name} is not cached: there is nothing to remove")
        if subject:
            self._check_publish_subject(subject)
        frame = plan.removal(obj, subject, now_s, self.connection.frame_wire)
        return self.buffer.add(frame, cls.descriptor, plan.plan.name)

    def will_publish(self, cls: type[Struct]) -> None:
        """Describe the type of a class to the node while connecting, as compiled programs do."""
        self.types.send_plan(cls)
        self.buffer.will_publish(cls.descriptor, cls.descriptor.name)

    @property
    def waiting_bytes(self) -> int:
        """Published bytes that are not yet written to the stream."""
        return self.buffer.waiting.size

    # -- subscribing

    def subscribe(
        self,
        what: type[Struct] | str,
        callback: Callable[[Any], object],
        now_ns: int,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> tuple[NodeSubscription, Target]:
        """Call back for each object that exists, and for each later update."""
        self._check_open()
        subscription, shape = self._find(what, where, fields)
        now_s = self.connection.wall_s(now_ns)
        self.intake.context.now_s = now_s
        is_new = not subscription.is_used
        target = self.subscriptions.add(
            subscription, callback, shape, is_strict=on_slow == "disconnect"
        )
        self.connection.send_published()
        if is_new:
            self.subscriptions.join(subscription, now_s)
        else:
            self.subscriptions.refresh(subscription, now_s)
        if shape is None and not subscription.is_pattern:
            self._request_type(subscription.group, now_s)
        self.connection.collect_failures()
        return subscription, target

    def subscribe_beside(
        self,
        subscription: NodeSubscription,
        callback: Callable[[Any], object],
        shape: ReceivedType,
        now_ns: int,
        *,
        on_slow: OnSlow,
    ) -> Target:
        """`subscribe` for a subscription that a container holds."""
        now_s = self.connection.wall_s(now_ns)
        self.intake.context.now_s = now_s
        target = self.subscriptions.add(
            subscription, callback, shape, is_strict=on_slow == "disconnect"
        )
        self.connection.send_published()
        self.subscriptions.refresh(subscription, now_s)
        self.connection.collect_failures()
        return target

    def unsubscribe(
        self, subscription: NodeSubscription, target: Target, now_ns: int, *, on_slow: OnSlow
    ) -> None:
        """End a subscription of the program."""
        self.connection.send_published()
        self.subscriptions.remove(
            subscription, target, self.connection.wall_s(now_ns), is_strict=on_slow == "disconnect"
        )

    def preload(self, what: type[Struct] | str, now_ns: int) -> None:
        """Subscribe while connecting, and as long as the space is open."""
        self._check_open()
        subscription, shape = self._find(what, None, None)
        is_new = not subscription.is_used
        if subscription.is_pattern:
            self.subscriptions.add(subscription, _ignore, None, is_strict=True)
        else:
            subscription.holder_count += 1
        now_s = self.connection.wall_s(now_ns)
        if is_new:
            self.subscriptions.join(subscription, now_s)
        if shape is None and not subscription.is_pattern:
            self._request_type(subscription.group, now_s)

    def hold(
        self,
        what: type[Struct] | str,
        now_ns: int,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
    ) -> tuple[NodeSubscription, ReceivedType]:
        """Store the current objects of a type, until `release`."""
        self._check_open()
        shape = self._shape(what)
        if shape is None:
            raise refuse("a container", str(what))
        if not shape.is_cached:
            raise LocalProtocolError(f"{shape.name} is not cached: it has no current objects")
        subscription, _ = self._find(what, where, fields)
        is_new = not subscription.is_used
        subscription.holder_count += 1
        if is_new:
            self.connection.send_published()
            self.subscriptions.join(subscription, self.connection.wall_s(now_ns))
        if self.subscriptions.bound_answer(subscription, self.connection.wall_s(now_ns)):
            self.connection.expect_answer(now_ns)
        return subscription, shape

    def release(self, subscription: NodeSubscription, now_ns: int) -> None:
        """Undo a `hold`."""
        subscription.holder_count -= 1
        self.connection.send_published()
        self.subscriptions.release(subscription, self.connection.wall_s(now_ns))

    # -- flushes and types

    def flush(self, now_ns: int) -> Flush:
        """Request a confirmation that everything published so far has reached the node."""
        self._check_open()
        flush = self.connection.flushes.begin(self.buffer.waiting.added_count)
        if self.connection.state is SpaceState.CONNECTED:
            self.connection.send_published()
            self.connection.send_echo(flush.number, now_ns)
        return flush

    def request_types(self, names: Iterable[str], now_ns: int) -> TypesRequest:
        """Request the node's types, or those with these names."""
        self._check_open()
        return self._request_types(check_type_names(names), self.connection.wall_s(now_ns))

    def close(self, now_ns: int, *, reason: str = "the space is closed") -> None:
        """Close the space for good, after the queued frames and a last message are sent."""
        self.connection.close(now_ns, reason=reason)

    def _check_open(self) -> None:
        if self.connection.failure is not None:
            raise Disconnected(self.connection.failure)

    def _request_type(self, name: str, now_s: float) -> None:
        """Request a type, and subscribe to descriptions in case the node learns it later."""
        for group in ("EnumDescriptorData", "StructDescriptorData"):
            subscription = self.subscriptions.of_group(group)
            if not subscription.is_used:
                subscription.holder_count += 1
                self.subscriptions.join(subscription, now_s)
        if self.connection.state is SpaceState.CONNECTED:
            self._request_types([name], now_s)

    def _request_types(self, names: list[str], now_s: float) -> TypesRequest:
        request = TypesRequest(names)
        if self.connection.state is SpaceState.CONNECTED:
            assert self.connection.access is not None
            self.connection.send_published()
            request.send(self.connection.access, now_s)
        self.connection.answers.types_requests.append(request)
        return request

    def _find(
        self, what: type[Struct] | str, where: str | None, fields: Iterable[str] | None
    ) -> tuple[NodeSubscription, ReceivedType | None]:
        fields = check_condition(where, fields)
        has_condition = where is not None or fields is not None
        shape = self._shape(what)
        if shape is None:
            assert isinstance(what, str)
            is_pattern = what.startswith("/")
            if has_condition:
                raise refuse("a condition", f"the pattern {what}" if is_pattern else what)
            if is_pattern and self.connection.has_subjects is False:
                raise _no_subjects(self.connection.server_name)
            return self.subscriptions.of_group(check_group(what)), None
        if not has_condition:
            return self.subscriptions.of_group(shape.name), shape
        filter_ = make_filter(shape.cls.descriptor, where, fields)
        return self.subscriptions.of_condition(shape, filter_), shape

    def _shape(self, what: type[Struct] | str) -> ReceivedType | None:
        """How objects of a type are received; None for a pattern or an unknown type."""
        if isinstance(what, str):
            if what.startswith("/"):
                check_group(what)
                return None
            shape = self.types.main_shape(what)
        else:
            shape = self.types.shape(check_class(what))
        if shape is not None and shape.cls.descriptor.flags.substruct_only:
            raise LocalProtocolError(f"{shape.name} can only be used inside other structs")
        return shape

    def _check_publish_subject(self, subject: str) -> None:
        check_subject(subject)
        if self.connection.has_subjects is False:
            raise _no_subjects(self.connection.server_name)
        self.connection.uses_subjects = True


def _ignore(_event: object) -> None:
    """The callback of a preloaded pattern, whose objects wait for the first subscriber."""


def _no_subjects(server_name: str) -> LocalProtocolError:
    error = LocalProtocolError(f"the node {server_name} supports only types and not subjects")
    error.hint = "subjects need a skerry node, and a listener without `extensions=off`"
    return error
