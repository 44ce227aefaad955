"""The current objects of a type in a space. This module is compiled.

A store is shared: a container and all subscriptions of a type see the same objects. A filtered
subscription has a store of its own.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from skerry.client.core.events import Event
from skerry.client.core.received_types import CREATE, REMOVE, UPDATE, ReceivedType
from skerry.codec.hot_loops import ObjectState
from skerry.codec.operation import Operation
from skerry.codec.pieces import Pieces, canonical_key, merge, merge_pieces, normalize, split_whole
from skerry.codec.plans import StructPlan, refuse_bytes
from skerry.protocol.access.header import Header, copy_header


class ReceiveContext:
    """The facts that all updates received at one time share."""

    def __init__(self) -> None:
        self.own_id: i64 = 0
        """The number of this client at the node."""
        self.epoch: i64 = 0
        """Counts the connections of the space."""
        self.now_s: float = 0.0

    def event(
        self,
        operation: Operation,
        header: Header,
        shape: ReceivedType,
        payload: bytes,
        entry: ObjectState | None,
    ) -> Event[Any]:
        return Event(operation, header, shape, payload, entry, self.own_id, self.now_s)

    def state(
        self,
        operation: Operation,
        payload: bytes,
        present: i64,
        header: Header,
        created: float,
        created_from: i64,
    ) -> ObjectState:
        """The state of an object after an update with this header."""
        return ObjectState(
            payload,
            present,
            header.subject,
            created,
            created_from,
            header.sent_time,
            header.sender,
            operation,
            self.now_s,
            self.epoch,
        )


class TypeStore:
    """The current objects of a type, by canonical key."""

    def __init__(self, shape: ReceivedType) -> None:
        self.shape: ReceivedType = shape
        self.objects: dict[bytes, ObjectState] = {}
        self.moved: ObjectState | None = None
        """The object before the last update, if that changed its subject."""

    def find(self, payload: bytes) -> ObjectState | None:
        """The stored object that an update is about, if any."""
        if not self.objects:
            return None
        plan = self.shape.plan
        pieces = split_whole(plan, payload)
        if plan.key_mask & ~pieces.present != 0:
            return None
        return self.objects.get(canonical_key(plan, pieces))

    def apply(
        self, header: Header, payload: bytes, context: ReceiveContext
    ) -> tuple[bytes, Event[Any]]:
        """Apply an update. Returns the key and the event; the key is empty if nothing changed.

        A removed object stays in the store; the caller deletes it after it has called back.
        """
        plan = self.shape.plan
        pieces = split_whole(plan, payload)
        if plan.key_mask & ~pieces.present != 0:
            refuse_bytes(plan, None, "the key is not complete", 0)
        key = canonical_key(plan, pieces)
        if header.remove_obj == 1:
            self.moved = None
            return self._remove(header, payload, pieces, key, self.objects.get(key), context)
        if not pieces.is_canonical:
            payload = normalize(plan, payload)
            pieces = split_whole(plan, payload)
        return self.keep(header, payload, key, pieces.present, context)

    def keep(
        self, header: Header, payload: bytes, key: bytes, present: i64, context: ReceiveContext
    ) -> tuple[bytes, Event[Any]]:
        """`apply` for a create or update whose payload is checked and in canonical form."""
        plan = self.shape.plan
        known = self.objects.get(key)
        self.moved = None
        if known is None:
            entry = context.state(CREATE, payload, present, header, header.sent_time, header.sender)
            self.objects[key] = entry
            return key, context.event(CREATE, header, self.shape, payload, entry)
        whole, present = _merged(plan, known, present, payload, header)
        if header.from_cache >= 0 and whole == known.payload and header.subject == known.subject:
            # Cache replays repeat objects: after a lost connection, and for each new pattern.
            known.epoch = context.epoch
            return b"", context.event(UPDATE, header, self.shape, payload, known)
        entry = context.state(UPDATE, whole, present, header, known.created, known.created_from)
        self.objects[key] = entry
        if header.subject != known.subject:
            self.moved = known
        return key, context.event(UPDATE, header, self.shape, payload, entry)

    def _remove(
        self,
        header: Header,
        payload: bytes,
        pieces: Pieces,
        key: bytes,
        known: ObjectState | None,
        context: ReceiveContext,
    ) -> tuple[bytes, Event[Any]]:
        if known is None:
            return b"", context.event(REMOVE, header, self.shape, payload, None)
        if header.subject != known.subject:
            # The object may have moved to a subject that this space did not subscribe to. For its
            # subscribers it is removed from the subject under which they know it.
            header = copy_header(header)
            header.subject = known.subject
        plan = self.shape.plan
        whole = known.payload
        if header.attributes & ~plan.key_mask & plan.mask != 0:
            whole = merge_pieces(plan, whole, pieces, header.attributes)
        entry = context.state(
            REMOVE, whole, known.present, header, known.created, known.created_from
        )
        # Callbacks still find the object; `UpdateIntake` deletes it afterwards.
        self.objects[key] = entry
        return key, context.event(REMOVE, header, self.shape, payload, entry)


def _merged(
    plan: StructPlan, known: ObjectState, present: i64, payload: bytes, header: Header
) -> tuple[bytes, i64]:
    """The object after an update, and its property set."""
    # A cache replay has the whole object. An update that names all fields that were or are set
    # leaves nothing of the old state.
    if header.from_cache >= 0:
        return payload, present
    if (known.present | present) & ~header.attributes & ~plan.key_mask == 0:
        return payload, present
    named = header.attributes & ~plan.key_mask
    whole = merge(plan, known.payload, payload, header.attributes)
    return whole, (known.present & ~named) | (present & (named | plan.key_mask))
