"""Claims: exclusive rights of clients, their holders and standbys.

A client claims to answer the requests of a type under a name, or to change objects: one of them,
or all of a type. That is the target of the claim. The client that claimed a target last holds it. A
standby holds the target when no other client does. All claims of a client end with its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.codec.pieces import canonical_key, split_whole
from skerry.codec.subjects import default_subject, text_level
from skerry.engine.clients import Client
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.dispatch.topics import Owners, Topic
from skerry.engine.types.type_table import TypeTable
from skerry.errors import LocalProtocolError
from skerry.limits import HANDLER_NAME_BYTES_MAX, SUBJECT_CHAR_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.patterns import check_subject

_HELD: Final = "held"
_STANDBY: Final = "standby"
_LOST: Final = "lost"
_REFUSED: Final = "refused"
_RELEASE_WORK: Final = 50
"""Work units for the release of a claim."""


@dataclass(eq=False, slots=True, kw_only=True)
class ClaimTarget:
    """A right that one client at a time can hold."""

    topic: Topic
    handler: str | None
    """The name under which requests are answered; None for objects."""
    key: bytes | None
    """The key of one object; None for requests, and for all objects of a type."""
    subject: str
    holder: NodeClaim | None = None
    standbys: deque[NodeClaim] = field(default_factory=deque)
    """Claims that wait for the right, the next holder first."""

    @property
    def identity(self) -> tuple[str, str | None, bytes | None]:
        """Type name, handler name and key."""
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
    """A claim of a client: it holds the target or waits for it."""

    client: Client
    number: int
    """Chosen by the client."""
    target: ClaimTarget
    is_standby: bool
    """Whether it waits while another client holds the target."""


class ClaimTable:
    """All claims of a node's clients; `changed` is called with each target whose holder changed."""

    def __init__(
        self, node: ServiceHost, types: TypeTable, changed: Callable[[ClaimTarget, int], None]
    ) -> None:
        self._node = node
        self._types = types
        self._changed = changed
        self._targets: dict[tuple[str, str | None, bytes | None], ClaimTarget] = {}
        self._claims: dict[int, dict[int, NodeClaim]] = {}
        """By client and number."""

    @property
    def held_count(self) -> int:
        """Targets that have a holder."""
        return len(self._targets)

    def take(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Process a SkerryClaim of a client."""
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
        """Release the claims of a client that disconnected; yields the work units of each step."""
        mine = self._claims.get(client.client_id, {})
        # Standbys are released first, so that this client does not become the holder again.
        for claim in sorted(mine.values(), key=lambda claim: claim.target.holder is claim):
            # Another client may have claimed it between two steps.
            if mine.get(claim.number) is claim:
                self._release(claim, self._node.clock.now_ns)
                yield _RELEASE_WORK

    def claim_count(self, client: Client) -> int:
        return len(self._claims.get(client.client_id, ()))

    def forbidden(self, client: Client) -> str | None:
        """The subject of a claim that a client may no longer have; None if it may have all."""
        claims = self._claims.get(client.client_id, {}).values()
        return next(
            (claim.target.subject for claim in claims if not claim.target.permits(client)), None
        )

    def is_free_for(self, topic: Topic, client: Client) -> bool:
        """Whether no client other than this one owns objects of a topic."""
        owners = topic.owners
        if owners is None:
            return True
        return {*owners.by_key.values(), int(owners.of_all)} <= {0, client.client_id}

    # -- claims

    def _claim(self, client: Client, message: Any, claim_count: int, now_ns: int) -> None:
        target = self._target(client, message)
        if isinstance(target, ClaimTarget):
            limit = client.limits.claim_count_max
            if not target.permits(client):
                target = f"{target.subject}: not permitted"
            elif claim_count >= limit:
                target = f"{target.subject}: {limit} claims already"
        if isinstance(target, str):
            self._node.connections.disconnection.count_refusal(client, "claim", target)
            self._notify(client, message.number, _REFUSED, now_ns, target)
            return
        is_standby = message.event.label == _STANDBY
        claim = NodeClaim(
            client=client, number=message.number, target=target, is_standby=is_standby
        )
        self._claims.setdefault(client.client_id, {})[claim.number] = claim
        self._targets[target.identity] = target
        if target.holder is None:
            self._hold(claim, now_ns)
        elif is_standby:
            target.standbys.append(claim)
            self._notify(client, claim.number, _STANDBY, now_ns)
            self._publish(target, now_ns)
        else:
            self._take_over(claim, target.holder, now_ns)

    def _take_over(self, claim: NodeClaim, former: NodeClaim, now_ns: int) -> None:
        if former.is_standby:
            # The former holder is a standby again, and the one that has waited longest.
            claim.target.standbys.appendleft(former)
            self._notify(former.client, former.number, _STANDBY, now_ns)
        else:
            self._forget_claim(former)
            why = f"{claim.target.subject}: claimed by client {claim.client.client_id}"
            self._notify(former.client, former.number, _LOST, now_ns, why)
        self._hold(claim, now_ns)

    def _release(self, claim: NodeClaim, now_ns: int) -> None:
        self._forget_claim(claim)
        target = claim.target
        if target.holder is not claim:
            target.standbys.remove(claim)
            self._publish(target, now_ns)
            return
        target.holder = None
        if target.standbys:
            self._hold(target.standbys.popleft(), now_ns)
            return
        del self._targets[target.identity]
        self._own(target, 0)
        self._publish(target, now_ns)
        self._changed(target, now_ns)

    def _hold(self, claim: NodeClaim, now_ns: int) -> None:
        target = claim.target
        target.holder = claim
        self._own(target, claim.client.client_id)
        self._notify(claim.client, claim.number, _HELD, now_ns)
        self._publish(target, now_ns)
        self._changed(target, now_ns)

    def _forget_claim(self, claim: NodeClaim) -> None:
        mine = self._claims[claim.client.client_id]
        del mine[claim.number]
        if not mine:
            del self._claims[claim.client.client_id]

    # -- targets

    def _target(self, client: Client, message: Any) -> ClaimTarget | str:
        """The target of a claim; or why the claim is refused."""
        name, handler = message.typeName or "", message.handler
        topic = self._types.topic(name)
        if topic is None:
            is_described = name in client.connection.received
            why = "not permitted" if is_described else "there is no such type"
            return f"{name:.60}: {why}"
        if topic.type.flags.internal or topic.type.flags.substruct_only:
            return f"{name}: its objects cannot be claimed"
        if handler is not None:
            try:
                key, subject = None, handler_subject(name, handler)
            except LocalProtocolError as error:
                return f"{name}: {error}"
        elif not topic.is_cached:
            return f"{name}: objects of a type that is not cached cannot be claimed"
        elif message.object is None:
            key, subject = None, "/" + text_level(name)
        else:
            pieces = split_whole(topic.plan, message.object)
            if topic.plan.key_mask & ~pieces.present:
                return f"{name}: the key is not complete"
            key, subject = canonical_key(topic.plan, pieces), default_subject(topic.plan, pieces)
            if len(subject) > SUBJECT_CHAR_COUNT_MAX:
                # The subject is published to all subscribers, and one claim counts as one, however
                # long its subject is.
                size = f"{len(subject)} characters, the limit is {SUBJECT_CHAR_COUNT_MAX}"
                return f"{name}: the key is too long, its subject has {size}"
            if not topic.plan.key_mask:
                # A singleton is the only object of its type, so this is a claim to all of them.
                key = None
        known = self._targets.get((name, handler, key))
        return known or ClaimTarget(topic=topic, handler=handler, key=key, subject=subject)

    def _own(self, target: ClaimTarget, client_id: int) -> None:
        """Note the owner of objects at their topic; 0 for none."""
        if target.handler is not None:
            return
        topic = target.topic
        owners = topic.owners or Owners()
        if target.key is None:
            owners.of_all = client_id
        elif client_id:
            owners.by_key[target.key] = client_id
        else:
            owners.by_key.pop(target.key, None)
        topic.owners = owners if owners.of_all or owners.by_key else None

    # -- notifications

    def _notify(
        self, client: Client, number: int, state: str, now_ns: int, reason: str | None = None
    ) -> None:
        if not client.is_present:
            return
        message = internal_class("SkerryClaimed")(number=number)
        message.state = internal_class("SkerryClaimState")[state]
        if reason is not None:
            message.reason = reason
        client.connection.send_message(message, self._node.clock.wall_s(now_ns))

    def _publish(self, target: ClaimTarget, now_ns: int) -> None:
        kinds = internal_class("SkerryClaimKind")
        obj = internal_class("SkerryHolder")(
            kind=kinds["objects" if target.handler is None else "requests"], subject=target.subject
        )
        holder = target.holder
        if holder is not None:
            obj.typeName = target.topic.name
            obj.client = holder.client.client_id
            obj.standbys = len(target.standbys)
        self._node.publisher.publish(obj, now_ns, holder is None)


def handler_subject(type_name: str, name: str) -> str:
    """The subject by which permissions decide about requests of a type under a name.

    Raises LocalProtocolError for an invalid name.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > HANDLER_NAME_BYTES_MAX:
        raise LocalProtocolError(
            f"the name of a handler has {size} bytes, the limit is {HANDLER_NAME_BYTES_MAX}"
        )
    own = "/" + text_level(type_name)
    return check_subject(f"{own}/{text_level(name)}" if name else own)
