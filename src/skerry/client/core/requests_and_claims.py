"""What a space has to do with single other programs: requests to them and from them, and claims.

All of it is an addition of skerry's nodes, so it is an error to ask a plain DOTS host for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from skerry.client.api.arguments import check_text
from skerry.client.api.keys import Keys
from skerry.client.core import request_calls as calls
from skerry.client.core.claims import Claim
from skerry.client.core.events import ReceivedType
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.request_calls import ReceivedRequest, Taker
from skerry.client.core.requests import Request
from skerry.client.core.send_buffer import SendPlan
from skerry.client.core.states import SpaceState
from skerry.errors import Disconnected, EncodeError, LocalProtocolError
from skerry.limits import HANDLER_NAME_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_TIMEOUT_S_MAX
from skerry.objects.base import Struct, codec_of

__all__ = ["RequestsAndClaims"]


class RequestsAndClaims(NodeConnection):
    """Requests and claims of a space."""

    # -- requests of our own

    def request(self, obj: Struct, now_ns: int, *, to: str, timeout_s: float) -> Request:
        """Ask whoever answers such requests under a name, behind all that was published."""
        plan = self._plan(obj, "a request")
        check_text(to, "the name of a handler", HANDLER_NAME_BYTES_MAX)
        _check_timeout(timeout_s)
        self.check_additions("requests")
        payload = _encoded(plan, obj)
        request = self._requests.begin(
            obj.descriptor, handler=to, payload=payload, timeout_s=timeout_s, now_ns=now_ns
        )
        if self.state is SpaceState.CONNECTED:
            assert self._connection is not None
            self._say_first()
            self._requests.send(request, self._connection, now_ns, self._wall_s(now_ns))
        return request

    def forget_request(self, request: Request) -> None:
        """Nobody waits for it any more."""
        self._requests.given_up(request)

    # -- requests of others

    def answer(self, call: ReceivedRequest, answer: object, now_ns: int) -> None:
        """Give the answer to a request, behind all that was published: an object, or None.

        LocalProtocolError or EncodeError for what cannot be one; the request then still waits. It
        is dropped when the connection is another by now.
        """
        payload = None if answer is None else _encoded(self._plan(answer, "an answer"), answer)
        if call.connection is not self._connection:
            return
        self._say_first()
        now_s = self._wall_s(now_ns)
        if isinstance(answer, Struct):
            call.connection.describe(answer.descriptor, now_s)
            calls.give(call, answer.descriptor.name, payload, now_s)
        else:
            calls.give(call, None, None, now_s)

    def fail(self, call: ReceivedRequest, reason: str, now_ns: int) -> None:
        """Tell who asks that there is no answer, and why."""
        if call.connection is self._connection:
            self._say_first()
            calls.fail(call, reason, self._wall_s(now_ns))

    # -- claims

    def claim_requests(
        self,
        cls: type[Struct],
        take: Taker,
        now_ns: int,
        *,
        name: str,
        is_standby: bool,
        told: Callable[[], object],
    ) -> Claim:
        """Be the one who answers requests of a type under a name; `take` gets each of them."""
        self.types.send_plan(cls)
        check_text(name, "the name of a handler", HANDLER_NAME_BYTES_MAX)
        claim = Claim(
            type_=cls.descriptor, handler=name, is_standby=is_standby, told=told, take=take
        )
        self._begin([claim], now_ns)
        return claim

    def claim_objects(
        self,
        cls: type[Struct],
        keys: Iterable[Any] | None,
        now_ns: int,
        *,
        is_standby: bool,
        told: Callable[[], object],
    ) -> list[Claim]:
        """Be the only one who changes objects: those with these keys, or all of a type."""
        if not self.types.send_plan(cls).is_cached:
            raise LocalProtocolError(f"{cls.descriptor.name} is not cached: it has no objects")
        if keys is None:
            found = [Claim(type_=cls.descriptor, is_standby=is_standby, told=told)]
        else:
            found = _claims_of(self.types.shape(cls), keys, is_standby, told)
        self._begin(found, now_ns)
        return found

    def release_claims(self, claims: Iterable[Claim], now_ns: int) -> None:
        """Give some up."""
        self._say_first()
        for claim in claims:
            self._claims.release(claim, self._wall_s(now_ns))

    def check_additions(self, what: str) -> None:
        """LocalProtocolError where the node is a plain one; Disconnected when all is over."""
        self._check_open()
        if self._has_subjects is False:
            error = LocalProtocolError(f"the node {self.server_name} knows no {what}")
            error.hint = f"{what} need a skerry node, and a listener without `extensions=off`"
            raise error

    # -- inside

    def _begin(self, claims: list[Claim], now_ns: int) -> None:
        self.check_additions("claims")
        self._say_first()
        self._claims.begin(claims, self._wall_s(now_ns))

    def _plan(self, obj: object, what: str) -> SendPlan:
        if not isinstance(obj, Struct):
            error = LocalProtocolError(f"{what} is an object of a type, not {type(obj).__name__}")
            error.hint = "declare a type for it, and give an object of that"
            raise error
        return self.types.send_plan(type(obj))

    def _check_open(self) -> None:
        if self.failure is not None:
            raise Disconnected(self.failure)


def _encoded(plan: SendPlan, obj: object) -> bytes:
    payload: bytes = plan.encode(obj)
    if len(payload) > REQUEST_BYTES_MAX:
        detail = f"{len(payload)} bytes, the limit for requests and answers is {REQUEST_BYTES_MAX}"
        raise EncodeError(type_name=plan.plan.name, field="", detail=detail)
    return payload


def _claims_of(
    shape: ReceivedType, keys: Iterable[Any], is_standby: bool, told: Callable[[], object]
) -> list[Claim]:
    """One for each key; a key that is named twice is one."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise _no_keys(f"`keys` is a list of keys, got {type(keys).__name__}")
    reader = Keys(shape)
    found: dict[bytes, Claim] = {}
    for key in keys:
        obj = reader.object_of(key)
        if obj is None:
            raise _no_keys(f"{key!r:.80} is no key of {shape.name}")
        codec = codec_of(type(obj))
        if int(obj.attributes) & shape.plan.key_mask != shape.plan.key_mask:
            raise _no_keys(f"{key!r:.80} has no whole key of {shape.name}")
        try:
            place, payload = codec.encode_key(obj), codec.encode_only(obj, int(shape.plan.key_mask))
        except EncodeError as error:
            raise _no_keys(f"{key!r:.80} is no key of {shape.name}: {error}") from None
        found[place] = Claim(
            type_=shape.cls.descriptor,
            key=reader.value_of(obj),
            place=place,
            payload=payload,
            is_standby=is_standby,
            told=told,
        )
    if not found:
        raise _no_keys("`keys` is empty")
    return list(found.values())


def _no_keys(what: str) -> LocalProtocolError:
    error = LocalProtocolError(what)
    error.hint = "give keys as those of a container, or none of them for all objects of the type"
    return error


def _check_timeout(timeout_s: object) -> None:
    if isinstance(timeout_s, int | float) and 0 < timeout_s <= REQUEST_TIMEOUT_S_MAX:
        return
    error = LocalProtocolError(f"a request cannot wait {timeout_s!r:.40} s for its answer")
    error.hint = f"give a timeout above 0 and up to {REQUEST_TIMEOUT_S_MAX:.0f} s"
    raise error
