"""Applies updates to a cache, as a node does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skerry.codec.codec import Codec
from skerry.codec.envelope import CREATE, REMOVE, UPDATE, Update
from skerry.codec.pieces import merge_pieces, split_whole
from skerry.engine.dispatch.cache import Cache, Entry


def apply(cache: Cache, update: Update, codec: Codec) -> tuple[int, Entry] | None:
    """Merge an update; returns the operation, and the state of the object after it.

    After a remove, that is the last state. Returns None if an unknown object was removed.
    """
    type_cache = cache.type_cache(update.type_name)
    plan = codec.plan
    pieces = split_whole(plan, update.payload)
    if update.operation == REMOVE:
        gone = cache.drop(type_cache, update.key)
        if gone is None:
            return None
        # The last state, with the fields of the remove itself.
        payload = merge_pieces(plan, gone.payload, pieces, update.present)
        return REMOVE, gone.with_payload(payload, split_whole(plan, payload).present)
    operation = UPDATE if update.key in type_cache.objects else CREATE
    entry = cache.put(
        type_cache,
        plan,
        update.key,
        pieces.data,
        pieces.present,
        update.present,
        update.subject,
        update.sender,
        update.sent_ns,
        update.time_ns,
        update.position,
    )
    return operation, entry


def usage_of(usages: Mapping[Any, Any], owner: object) -> tuple[int, int]:
    """Count and bytes of the objects of a client or of an address."""
    usage = usages.get(owner)
    return (0, 0) if usage is None else (int(usage.count), int(usage.size))
