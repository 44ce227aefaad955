"""Owners and standbys: what only one client at a time may do, and who waits to do it next.

A client claims to answer the requests of a type under a name, or to change objects: one of them,
or all of a type. Each of these is a place. Whoever claims it last holds it, and who only stands by
holds it when nobody else does. All claims of a client end with its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skerry.codec.pieces import canonical_key, split_whole
from skerry.codec.subjects import default_subject, text_level
from skerry.engine.clients import Client
from skerry.engine.dispatch.topics import Owners, Topic
from skerry.engine.types.node_types import NodeTypes
from skerry.errors import LocalProtocolError
from skerry.limits import HANDLER_NAME_BYTES_MAX, SUBJECT_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.patterns import check_subject

if TYPE_CHECKING:
    from skerry.engine.connections.service_host import ServiceHost

__all__ = ["ClaimPlace", "ClaimTable", "NodeClaim", "handler_subject"]

_HELD: Final = "held"
_STANDBY: Final = "standby"
_LOST: Final = "lost"
_REFUSED: Final = "refused"
_RELEASE_LOOKS: Final = 50
"""Looks that the release of a claim takes."""


@dataclass(eq=False, slots=True, kw_only=True)
class ClaimPlace:
    """What one client at a time can hold."""

    topic: Topic
    handler: str | None
    """The name under which requests are answered; None for objects."""
    key: bytes | None
    """Of one object; None for requests, and for all objects of a type."""
    subject: str
    holder: NodeClaim | None = None
    standbys: deque[NodeClaim] = field(default_factory=deque)
    """Those who wait for it, the next first."""

    @property
    def identity(self) -> tuple[str, str | None, bytes | None]:
        """What tells it from others."""
        return self.topic.name, self.handler, self.key

    def permits(self, client: Client) -> bool:
        """Whether a client may hold it."""
        rights = client.rights
        assert rights is not None
        if self.handler is not None:
            return rights.allows("subscribe", self.subject)
        if self.key is None:
            name = self.topic.name
            return rights.allows_group("publish", name) and rights.allows_group("remove", name)
        known = self.topic.type_cache.objects.get(self.key)
        subjects = {self.subject, (known.subject if known is not None else "") or self.subject}
        return all(
            rights.allows(verb, subject) for subject in subjects for verb in ("publish", "remove")
        )


@dataclass(eq=False, slots=True, kw_only=True)
class NodeClaim:
    """What a client wants to hold, or holds."""

    client: Client
    number: int
    """Of the client's choice."""
    place: ClaimPlace
    is_standby: bool
    """Whether it lets others go first."""


class ClaimTable:
    """Who holds what; `changed` is called with a place whose holder is another now."""

    def __init__(
        self, node: ServiceHost, types: NodeTypes, changed: Callable[[ClaimPlace, int], None]
    ) -> None:
        self._node = node
        self._types = types
        self._changed = changed
        self._places: dict[tuple[str, str | None, bytes | None], ClaimPlace] = {}
        self._claims: dict[int, dict[int, NodeClaim]] = {}
        """By client and number."""

    @property
    def held_count(self) -> int:
        """Places that somebody holds."""
        return len(self._places)

    def handler(self, type_name: str, name: str) -> ClaimPlace | None:
        """Where requests of a type under a name are answered, if they are."""
        return self._places.get((type_name, name, None))

    def take(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """A SkerryClaim of a client."""
        message: Any = self._types.class_of(topic).decode(payload)
        if message.number is None or message.event is None:
            self._node.drop(client, now_ns, "SkerryClaim: without number or event")
            return
        mine = self._claims.get(client.client_id, {})
        known = mine.get(message.number)
        if message.event.label == "release":
            if known is not None:
                self._release(known, now_ns)
        elif known is not None:
            self._node.drop(client, now_ns, f"SkerryClaim: number {message.number} is in use")
        else:
            self._claim(client, message, len(mine), now_ns)

    def leaving(self, client: Client) -> Iterator[int]:
        """Release the claims of a client that disconnected; yields the looks of each step."""
        mine = self._claims.get(client.client_id, {})
        # Those that wait go first: nothing must be handed on to who is gone.
        for claim in sorted(mine.values(), key=lambda claim: claim.place.holder is claim):
            # Another client may have claimed it between two steps.
            if mine.get(claim.number) is claim:
                self._release(claim, self._node.now_ns)
                yield _RELEASE_LOOKS

    def claim_count(self, client: Client) -> int:
        """How many claims a client has."""
        return len(self._claims.get(client.client_id, ()))

    def forbidden(self, client: Client) -> str | None:
        """Something that a client claims and may not hold any more."""
        claims = self._claims.get(client.client_id, {}).values()
        return next(
            (claim.place.subject for claim in claims if not claim.place.permits(client)), None
        )

    def is_free_for(self, topic: Topic, client: Client) -> bool:
        """Whether no object of a topic is owned by anybody else than a client."""
        owners = topic.owners
        if owners is None:
            return True
        return {*owners.by_key.values(), int(owners.of_all)} <= {0, client.client_id}

    # -- claims

    def _claim(self, client: Client, message: Any, claim_count: int, now_ns: int) -> None:
        place = self._place(client, message)
        if isinstance(place, ClaimPlace):
            limit = client.limits.claim_count_max
            if not place.permits(client):
                place = f"{place.subject}: not permitted"
            elif claim_count >= limit:
                place = f"{place.subject}: {limit} claims already"
        if isinstance(place, str):
            self._node.count_refusal(client, "claim", place)
            self._tell(client, message.number, _REFUSED, now_ns, place)
            return
        is_standby = message.event.label == _STANDBY
        claim = NodeClaim(client=client, number=message.number, place=place, is_standby=is_standby)
        self._claims.setdefault(client.client_id, {})[claim.number] = claim
        self._places[place.identity] = place
        if place.holder is None:
            self._hold(claim, now_ns)
        elif is_standby:
            place.standbys.append(claim)
            self._tell(client, claim.number, _STANDBY, now_ns)
            self._publish(place, now_ns)
        else:
            self._take_over(claim, place.holder, now_ns)

    def _take_over(self, claim: NodeClaim, former: NodeClaim, now_ns: int) -> None:
        if former.is_standby:
            # It wants it as before, and had waited for it longest.
            claim.place.standbys.appendleft(former)
            self._tell(former.client, former.number, _STANDBY, now_ns)
        else:
            self._forget_claim(former)
            why = f"{claim.place.subject}: claimed by client {claim.client.client_id}"
            self._tell(former.client, former.number, _LOST, now_ns, why)
        self._hold(claim, now_ns)

    def _release(self, claim: NodeClaim, now_ns: int) -> None:
        self._forget_claim(claim)
        place = claim.place
        if place.holder is not claim:
            place.standbys.remove(claim)
            self._publish(place, now_ns)
            return
        place.holder = None
        if place.standbys:
            self._hold(place.standbys.popleft(), now_ns)
            return
        del self._places[place.identity]
        self._own(place, 0)
        self._publish(place, now_ns)
        self._changed(place, now_ns)

    def _hold(self, claim: NodeClaim, now_ns: int) -> None:
        place = claim.place
        place.holder = claim
        self._own(place, claim.client.client_id)
        self._tell(claim.client, claim.number, _HELD, now_ns)
        self._publish(place, now_ns)
        self._changed(place, now_ns)

    def _forget_claim(self, claim: NodeClaim) -> None:
        mine = self._claims[claim.client.client_id]
        del mine[claim.number]
        if not mine:
            del self._claims[claim.client.client_id]

    # -- places

    def _place(self, client: Client, message: Any) -> ClaimPlace | str:
        """What a claim is for; or why it can be for nothing."""
        name, handler = message.typeName or "", message.handler
        topic = self._types.topic(name)
        if topic is None:
            is_described = name in client.connection.received
            why = "not permitted" if is_described else "there is no such type"
            return f"{name:.60}: {why}"
        if topic.type.flags.internal or topic.type.flags.substruct_only:
            return f"{name}: its objects are nobody's"
        if handler is not None:
            try:
                key, subject = None, handler_subject(name, handler)
            except LocalProtocolError as error:
                return f"{name}: {error}"
        elif not topic.is_cached:
            return f"{name}: it is not cached, so there is nothing to own"
        elif message.object is None:
            key, subject = None, "/" + text_level(name)
        else:
            pieces = split_whole(topic.plan, message.object)
            if topic.plan.key_mask & ~pieces.present:
                return f"{name}: the key is not complete"
            key, subject = canonical_key(topic.plan, pieces), default_subject(topic.plan, pieces)
            if len(subject) > SUBJECT_CHAR_COUNT_MAX:
                # All are told of it by its subject, and it counts as one claim however long it is.
                size = f"{len(subject)} characters, the limit is {SUBJECT_CHAR_COUNT_MAX}"
                return f"{name}: the key is too long, its subject has {size}"
            if not topic.plan.key_mask:
                # There is only this one, under the subject of the type: it is all of them.
                key = None
        known = self._places.get((name, handler, key))
        return known or ClaimPlace(topic=topic, handler=handler, key=key, subject=subject)

    def _own(self, place: ClaimPlace, client_id: int) -> None:
        """Note at the topic whose its objects are."""
        if place.handler is not None:
            return
        topic = place.topic
        owners = topic.owners or Owners()
        if place.key is None:
            owners.of_all = client_id
        elif client_id:
            owners.by_key[place.key] = client_id
        else:
            owners.by_key.pop(place.key, None)
        topic.owners = owners if owners.of_all or owners.by_key else None

    # -- telling

    def _tell(
        self, client: Client, number: int, state: str, now_ns: int, reason: str | None = None
    ) -> None:
        if not client.is_present:
            return
        told = internal_class("SkerryClaimed")(number=number)
        told.state = internal_class("SkerryClaimState")[state]
        if reason is not None:
            told.reason = reason
        client.connection.send_message(told, self._node.wall_s(now_ns))

    def _publish(self, place: ClaimPlace, now_ns: int) -> None:
        """Tell all who holds a place."""
        kinds = internal_class("SkerryClaimKind")
        obj = internal_class("SkerryHolder")(
            kind=kinds["objects" if place.handler is None else "requests"], subject=place.subject
        )
        holder = place.holder
        if holder is not None:
            obj.typeName = place.topic.name
            obj.client = holder.client.client_id
            obj.standbys = len(place.standbys)
        self._node.say(obj, now_ns, holder is None)


def handler_subject(type_name: str, name: str) -> str:
    """Where requests of a type under a name are answered, as permissions see it.

    LocalProtocolError for what is no name.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > HANDLER_NAME_BYTES_MAX:
        what = f"the name of a handler has {size} bytes"
        raise LocalProtocolError(f"{what}, the limit is {HANDLER_NAME_BYTES_MAX}")
    own = "/" + text_level(type_name)
    return check_subject(f"{own}/{text_level(name)}" if name else own)
