"""Requests of a space to other programs, its answers to their requests, and its claims.

All of these need a skerry node; on a DOTS host they raise LocalProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from skerry.client.core import received_requests
from skerry.client.core.arguments import check_text
from skerry.client.core.claims import Claim
from skerry.client.core.keys import Keys
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.received_requests import OnRequest, ReceivedRequest
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.requests import Request
from skerry.client.core.send_buffer import SendPlan
from skerry.client.core.states import SpaceState
from skerry.errors import Disconnected, EncodeError, LocalProtocolError
from skerry.limits import HANDLER_NAME_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_TIMEOUT_S_MAX
from skerry.objects.base import Struct, codec_of


class RequestsAndClaims:
    def __init__(self, connection: NodeConnection) -> None:
        self._connection = connection

    # -- requests to other programs

    def request(
        self, obj: Struct, now_ns: int, *, to: str, timeout_s: float, trace: str = ""
    ) -> Request:
        """Send a request to the handler with a name, after all that was published before.

        `trace` is the context of its trace, for the spans of its handler.
        """
        plan = self._plan(obj, "a request")
        check_text(to, "the name of a handler", HANDLER_NAME_BYTES_MAX)
        _check_timeout(timeout_s)
        self.check_additions("requests")
        payload = _encoded(plan, obj)
        connection = self._connection
        request = connection.requests.begin(
            obj.descriptor,
            handler=to,
            payload=payload,
            timeout_s=timeout_s,
            now_ns=now_ns,
            trace=trace,
        )
        if connection.state is SpaceState.CONNECTED:
            assert connection.access is not None
            connection.send_published()
            connection.requests.send(request, connection.access, now_ns, connection.wall_s(now_ns))
        return request

    # -- requests of other programs

    def answer(self, request: ReceivedRequest, answer: object, now_ns: int) -> None:
        """Send the answer to a request, an object or None, after all that was published before.

        The answer is dropped if the connection of the request is lost. LocalProtocolError or
        EncodeError if `answer` cannot be sent; the request still waits for a response then.
        """
        payload = None if answer is None else _encoded(self._plan(answer, "an answer"), answer)
        connection = self._connection
        if request.connection is not connection.access:
            return
        connection.send_published()
        now_s = connection.wall_s(now_ns)
        if isinstance(answer, Struct):
            request.connection.describe(answer.descriptor, now_s)
            received_requests.answer(request, answer.descriptor.name, payload, now_s)
        else:
            received_requests.answer(request, None, None, now_s)

    def fail(self, request: ReceivedRequest, reason: str, now_ns: int) -> None:
        """Send a failure with its reason, as the response to a request."""
        connection = self._connection
        if request.connection is connection.access:
            connection.send_published()
            received_requests.fail(request, reason, connection.wall_s(now_ns))

    # -- claims

    def claim_requests(
        self,
        cls: type[Struct],
        on_request: OnRequest,
        now_ns: int,
        *,
        name: str,
        is_standby: bool,
        on_change: Callable[[], object],
    ) -> Claim:
        """Claim the requests of a type under a name; `on_request` is called with each of them."""
        self._connection.types.send_plan(cls)
        check_text(name, "the name of a handler", HANDLER_NAME_BYTES_MAX)
        claim = Claim(
            type_=cls.descriptor,
            handler=name,
            is_standby=is_standby,
            on_change=on_change,
            on_request=on_request,
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
        on_change: Callable[[], object],
    ) -> list[Claim]:
        """Claim the exclusive right to change objects: those with these keys, or all of a type."""
        types = self._connection.types
        if not types.send_plan(cls).is_cached:
            raise LocalProtocolError(f"{cls.descriptor.name} is not cached: it has no objects")
        if keys is None:
            found = [Claim(type_=cls.descriptor, is_standby=is_standby, on_change=on_change)]
        else:
            found = _claims_of(types.shape(cls), keys, is_standby, on_change)
        self._begin(found, now_ns)
        return found

    def release_claims(self, claims: Iterable[Claim], now_ns: int) -> None:
        self._connection.send_published()
        for claim in claims:
            self._connection.claims.release(claim, self._connection.wall_s(now_ns))

    def check_additions(self, what: str) -> None:
        """LocalProtocolError if the node does not support `what`; Disconnected if closed."""
        connection = self._connection
        if connection.failure is not None:
            raise Disconnected(connection.failure)
        if connection.has_subjects is False:
            error = LocalProtocolError(f"the node {connection.server_name} does not support {what}")
            error.hint = f"{what} need a skerry node, and a listener without `extensions=off`"
            raise error

    def _begin(self, claims: list[Claim], now_ns: int) -> None:
        self.check_additions("claims")
        self._connection.send_published()
        self._connection.claims.begin(claims, self._connection.wall_s(now_ns))

    def _plan(self, obj: object, what: str) -> SendPlan:
        if not isinstance(obj, Struct):
            error = LocalProtocolError(
                f"{what} must be an object of a type, not {type(obj).__name__}"
            )
            error.hint = "declare a type for it, and pass an object of that type"
            raise error
        return self._connection.types.send_plan(type(obj))


def _encoded(plan: SendPlan, obj: object) -> bytes:
    payload: bytes = plan.encode(obj)
    if len(payload) > REQUEST_BYTES_MAX:
        detail = f"{len(payload)} bytes, the limit for requests and answers is {REQUEST_BYTES_MAX}"
        raise EncodeError(type_name=plan.plan.name, field="", detail=detail)
    return payload


def _claims_of(
    shape: ReceivedType, keys: Iterable[Any], is_standby: bool, on_change: Callable[[], object]
) -> list[Claim]:
    """One claim for each distinct key."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise _bad_keys(f"`keys` must be a list of keys, got {type(keys).__name__}")
    reader = Keys(shape)
    found: dict[bytes, Claim] = {}
    for key in keys:
        obj = reader.object_of(key)
        if obj is None:
            raise _bad_keys(f"{key!r:.80} is not a key of {shape.name}")
        codec = codec_of(type(obj))
        if int(obj.attributes) & shape.plan.key_mask != shape.plan.key_mask:
            raise _bad_keys(f"{key!r:.80} does not have all key fields of {shape.name}")
        try:
            canonical_key = codec.encode_key(obj)
            payload = codec.encode_only(obj, int(shape.plan.key_mask))
        except EncodeError as error:
            raise _bad_keys(f"{key!r:.80} is not a key of {shape.name}: {error}") from None
        found[canonical_key] = Claim(
            type_=shape.cls.descriptor,
            key=reader.value_of(obj),
            canonical_key=canonical_key,
            payload=payload,
            is_standby=is_standby,
            on_change=on_change,
        )
    if not found:
        raise _bad_keys("`keys` is empty")
    return list(found.values())


def _bad_keys(what: str) -> LocalProtocolError:
    error = LocalProtocolError(what)
    error.hint = "pass keys as a container has them, or no `keys` for all objects of the type"
    return error


def _check_timeout(timeout_s: object) -> None:
    if isinstance(timeout_s, int | float) and 0 < timeout_s <= REQUEST_TIMEOUT_S_MAX:
        return
    error = LocalProtocolError(f"{timeout_s!r:.40} is not a timeout of a request in seconds")
    error.hint = f"pass a timeout above 0 and up to {REQUEST_TIMEOUT_S_MAX:.0f} s"
    raise error
