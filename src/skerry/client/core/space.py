"""What a program does with a space: publish, subscribe, keep objects, ask. A pure machine.

Callbacks are called while bytes are received, so that an object is found in its container as its
event tells. Everything else the program is told comes out as events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from skerry.client.api.arguments import (
    check_class,
    check_condition,
    check_group,
    check_type_names,
)
from skerry.client.core.event_queue import OnSlow
from skerry.client.core.events import BYTES_NAME, ReceivedType
from skerry.client.core.flushes import Flush
from skerry.client.core.node_answers import TypesRequest
from skerry.client.core.requests_and_claims import RequestsAndClaims
from skerry.client.core.send_buffer import raw_payload
from skerry.client.core.settings import SpaceConfig, SpaceStatistics
from skerry.client.core.states import SpaceState
from skerry.client.core.subscriptions import SubscribedType, refuse_condition, refuse_container
from skerry.client.core.update_intake import Target
from skerry.errors import Disconnected, LocalProtocolError
from skerry.objects.base import Struct, selection
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import ConnectionStage
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.patterns import check_subject

__all__ = ["SpaceConfig", "SpaceCore", "SpaceStatistics"]


class SpaceCore(RequestsAndClaims):
    """One space of the node at an address.

    With a lock, objects may be published from any thread; everything else comes from one.
    """

    # -- publishing; from any thread where there is a lock

    def publish(
        self, obj: Struct, now_s: float, only: Iterable[str] | None = None, subject: str = ""
    ) -> bool:
        """Send an object, or what is selected of it; whether whoever writes must be told."""
        if self.failure is not None:
            raise Disconnected(self.failure)
        cls = type(obj)
        plan = self.types.send_plan(cls)
        if subject:
            self._check_publish_subject(subject)
        selected = -1 if only is None else int(selection(cls, only))
        frame = plan.update(obj, selected, subject, now_s, self._wire)
        is_due = self.buffer.add(frame, cls.descriptor, plan.plan.name)
        self.buffer.plans[cls] = plan
        if subject and only is None:
            self.buffer.note_object_under(cls, subject, plan)
        return is_due

    def publish_bytes(self, subject: str, data: bytes, now_s: float) -> bool:
        """Send bytes under a subject."""
        if self.failure is not None:
            raise Disconnected(self.failure)
        if not isinstance(data, bytes):
            raise LocalProtocolError(f"expected bytes for {subject:.60}, got {type(data).__name__}")
        self._check_publish_subject(subject)
        cls = internal_class(BYTES_NAME)
        plan = self.types.send_plan(cls)
        frame = plan.raw(raw_payload(data), subject, now_s, self._wire)
        is_due = self.buffer.add(frame, cls.descriptor, BYTES_NAME)
        self.buffer.note_subject(subject)
        return is_due

    def remove(self, obj: Struct, now_s: float, subject: str = "") -> bool:
        """Send the removal of the object with this key."""
        if self.failure is not None:
            raise Disconnected(self.failure)
        cls = type(obj)
        plan = self.types.send_plan(cls)
        if not plan.is_cached:
            raise LocalProtocolError(f"{plan.plan.name} is not cached: nothing to remove")
        if subject:
            self._check_publish_subject(subject)
        frame = plan.removal(obj, subject, now_s, self._wire)
        return self.buffer.add(frame, cls.descriptor, plan.plan.name)

    def will_publish(self, cls: type[Struct]) -> None:
        """A class whose type is to be described while connecting, as compiled programs do."""
        self.types.send_plan(cls)
        self.buffer.will_publish(cls.descriptor, cls.descriptor.name)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were published and wait for the stream."""
        return self.buffer.waiting_bytes

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
    ) -> tuple[SubscribedType, Target]:
        """Call back for each object that is there, and for each change from then on."""
        self._check_open()
        interest, shape = self._interest(what, where, fields)
        now_s = self._wall_s(now_ns)
        self.intake.now_s = now_s
        is_new = not interest.is_used
        target = self.interests.add(interest, callback, shape, is_strict=on_slow == "disconnect")
        self._say_first()
        if is_new:
            self.interests.ask(interest, now_s)
        else:
            self.interests.refresh(interest, now_s)
        if shape is None and not interest.is_pattern:
            self._learn_of(interest.group, now_s)
        self._collect_failures()
        return interest, target

    def subscribe_beside(
        self,
        interest: SubscribedType,
        callback: Callable[[Any], object],
        shape: ReceivedType,
        now_ns: int,
        *,
        on_slow: OnSlow,
    ) -> Target:
        """The same for something that is held here already."""
        now_s = self._wall_s(now_ns)
        self.intake.now_s = now_s
        target = self.interests.add(interest, callback, shape, is_strict=on_slow == "disconnect")
        self._say_first()
        self.interests.refresh(interest, now_s)
        self._collect_failures()
        return target

    def unsubscribe(
        self, interest: SubscribedType, target: Target, now_ns: int, *, on_slow: OnSlow
    ) -> None:
        """Tell somebody nothing more."""
        self._say_first()
        self.interests.remove(
            interest, target, self._wall_s(now_ns), is_strict=on_slow == "disconnect"
        )

    def preload(self, what: type[Struct] | str, now_ns: int) -> None:
        """Ask for something as early as can be, and for as long as the space is there."""
        self._check_open()
        interest, shape = self._interest(what, None, None)
        is_new = not interest.is_used
        if interest.is_pattern:
            self.interests.add(interest, _ignore, None, is_strict=True)
        else:
            interest.holder_count += 1
        now_s = self._wall_s(now_ns)
        if is_new:
            self.interests.ask(interest, now_s)
        if shape is None and not interest.is_pattern:
            self._learn_of(interest.group, now_s)

    def hold(
        self,
        what: type[Struct] | str,
        now_ns: int,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
    ) -> tuple[SubscribedType, ReceivedType]:
        """Keep the current objects of a type here, until `release`."""
        self._check_open()
        shape = self._shape(what)
        if shape is None:
            raise refuse_container(str(what))
        if not shape.is_cached:
            raise LocalProtocolError(f"{shape.name} is not cached: it has no current objects")
        interest, _ = self._interest(what, where, fields)
        is_new = not interest.is_used
        interest.holder_count += 1
        if is_new:
            self._say_first()
            self.interests.ask(interest, self._wall_s(now_ns))
        if self.interests.bound_answer(interest, self._wall_s(now_ns)):
            self._liveness.asked(now_ns)
        return interest, shape

    def release(self, interest: SubscribedType, now_ns: int) -> None:
        """One holder less."""
        interest.holder_count -= 1
        self._say_first()
        self.interests.release(interest, self._wall_s(now_ns))

    # -- questions

    def flush(self, now_ns: int) -> Flush:
        """Ask for a sign that everything published so far has reached the node."""
        self._check_open()
        flush = self._flushes.begin(self.buffer.added_count)
        if self.state is SpaceState.CONNECTED:
            self._say_first()
            self._send_echo(flush.number, now_ns)
        return flush

    def give_up(self, flush: Flush) -> None:
        """Nobody waits for it any more."""
        self._flushes.given_up(flush)

    def request_types(self, names: Iterable[str], now_ns: int) -> TypesRequest:
        """Ask the node for its types, or for those with these names."""
        self._check_open()
        return self._ask_types(check_type_names(names), self._wall_s(now_ns))

    def close(self, now_ns: int, *, reason: str = "the space is closed") -> None:
        """Say goodbye and end for good."""
        if self.state is SpaceState.CLOSED:
            return
        connection = self._connection
        if connection is not None:
            if connection.stage is ConnectionStage.CONNECTED:
                self._move()
            connection.end(self._wall_s(now_ns))
        self._end_stream()
        self._over(reason)

    # -- inside

    def _learn_of(self, name: str, now_s: float) -> None:
        """Hear of new types: one of them is waited for."""
        for group in ("EnumDescriptorData", "StructDescriptorData"):
            interest = self.interests.of_group(group)
            if not interest.is_used:
                interest.holder_count += 1
                self.interests.ask(interest, now_s)
        if self.state is SpaceState.CONNECTED:
            self._ask_types([name], now_s)

    def _ask_types(self, names: list[str], now_s: float) -> TypesRequest:
        request = TypesRequest(names)
        if self.state is SpaceState.CONNECTED:
            assert self._connection is not None
            self._say_first()
            request.send(self._connection, now_s)
        self._answers.types_requests.append(request)
        return request

    def _interest(
        self, what: type[Struct] | str, where: str | None, fields: Iterable[str] | None
    ) -> tuple[SubscribedType, ReceivedType | None]:
        fields = check_condition(where, fields)
        has_condition = where is not None or fields is not None
        shape = self._shape(what)
        if shape is None:
            assert isinstance(what, str)
            is_pattern = what.startswith("/")
            if has_condition:
                raise refuse_condition(f"the pattern {what}" if is_pattern else what)
            if is_pattern and self._has_subjects is False:
                raise _no_subjects(self.server_name)
            return self.interests.of_group(check_group(what)), None
        if not has_condition:
            return self.interests.of_group(shape.name), shape
        filter_ = make_filter(shape.cls.descriptor, where, fields)
        return self.interests.of_condition(shape, filter_), shape

    def _shape(self, what: type[Struct] | str) -> ReceivedType | None:
        """How objects of a type are received; None for a pattern, or a type not known yet."""
        if isinstance(what, str):
            if what.startswith("/"):
                check_group(what)
                return None
            shape = self.types.main_shape(what)
        else:
            shape = self.types.shape(check_class(what))
        if shape is not None and shape.cls.descriptor.flags.substruct_only:
            raise LocalProtocolError(f"{shape.name} is only for use inside other structs")
        return shape

    def _check_publish_subject(self, subject: str) -> None:
        check_subject(subject)
        if self._has_subjects is False:
            raise _no_subjects(self.server_name)
        self._uses_subjects = True


def _ignore(_event: object) -> None:
    """What is preloaded waits for its first subscriber."""


def _no_subjects(server_name: str) -> LocalProtocolError:
    error = LocalProtocolError(f"the node {server_name} knows only types, no subjects")
    error.hint = "subjects need a skerry node, and a listener without `extensions=off`"
    return error
