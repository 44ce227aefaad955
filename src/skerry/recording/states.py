"""What objects look like after some updates: for who begins in the midst of a recording.

An object that was seen from its beginning is whole. Of one whose first row is an update only the
fields are known that somebody spoke of since, and so it stays an update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from skerry.codec.envelope import GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.codec.pieces import merge, split_whole
from skerry.errors import CodecError
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType

__all__ = ["States", "has_state"]


def has_state(update: Update, type_: StructType | None) -> bool:
    """Whether the row says something of an object that stays."""
    return update.operation != GAP and type_ is not None and type_.flags.cached


class States:
    """The objects that are there. `types` has what reads each definition, by fingerprint.

    That is the union of compatible definitions where a type has several: an object that was updated
    by some of them has fields of all.
    """

    def __init__(self, types: Mapping[int, StructType]) -> None:
        self._types = types
        self._objects: dict[tuple[str, bytes], Update] = {}

    def __len__(self) -> int:
        """How many objects are there."""
        return len(self._objects)

    def take(self, update: Update) -> None:
        """Note what an update makes of its object. Messages and gaps make nothing."""
        type_ = self._types.get(update.fingerprint)
        if type_ is None or not has_state(update, type_):
            return
        place = (update.type_name, update.key)
        if update.operation == REMOVE:
            self._objects.pop(place, None)
        elif update.operation == UPDATE:
            self._objects[place] = _updated(self._objects.get(place), update, type_)
        else:
            self._objects[place] = update.replace(operation=SNAPSHOT, sequence=0)

    def take_updates(self) -> Iterator[Update]:
        """Each object as a row that says all that is known of it, in the order of the last updates;
        after that there are none.

        It is when and where its last update was. It has no number of its sender: it is not what
        that one sent.
        """
        objects, self._objects = self._objects, {}
        yield from sorted(objects.values(), key=lambda update: (update.node, update.position))


def _updated(before: Update | None, update: Update, type_: StructType) -> Update:
    operation, payload, present = UPDATE, update.payload, update.present
    if before is not None:
        plan = codec_of(class_of(type_)).plan
        try:
            payload = merge(plan, before.payload, update.payload, update.present)
            operation = before.operation
            present |= before.present
            if operation == SNAPSHOT:
                present = int(split_whole(plan, payload).present)
        except CodecError:
            # Of two definitions that do not go together the later one is what is there.
            payload, present = update.payload, update.present
    return update.replace(
        operation=operation,
        payload=payload,
        present=present,
        fingerprint=fingerprint(type_) if before is not None else update.fingerprint,
        sequence=0,
    )
