"""The state of objects after some updates, for reading that begins in the middle of a recording.

An object whose creation or snapshot was read is completely known. Of an object whose first row is
an update only the updated fields are known, so it is returned as an update.
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


def has_state(update: Update, type_: StructType | None) -> bool:
    """Whether the row changes a cached object."""
    return update.operation != GAP and type_ is not None and type_.flags.cached


class States:
    """The objects that exist. `types` has the definition for reading, by fingerprint.

    If a type has several compatible definitions, that is their union: an object that was updated
    with several of them has the fields of all.
    """

    def __init__(self, types: Mapping[int, StructType]) -> None:
        self._types = types
        self._objects: dict[tuple[str, bytes], Update] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def apply(self, update: Update) -> None:
        """Apply an update to its object. Messages and gaps have no effect."""
        type_ = self._types.get(update.fingerprint)
        if type_ is None or not has_state(update, type_):
            return
        key = (update.type_name, update.key)
        if update.operation == REMOVE:
            self._objects.pop(key, None)
        elif update.operation == UPDATE:
            self._objects[key] = _updated(self._objects.get(key), update, type_)
        else:
            self._objects[key] = update.replace(operation=SNAPSHOT, sequence=0)

    def take_updates(self) -> Iterator[Update]:
        """Each object as one row with its known fields, in the order of the last updates; empties.

        The row has the time, node and position of the last update. Its sequence is 0, because the
        sender did not send it like this.
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
            # The definitions are incompatible; the later update replaces the object.
            payload, present = update.payload, update.present
    return update.replace(
        operation=operation,
        payload=payload,
        present=present,
        fingerprint=fingerprint(type_) if before is not None else update.fingerprint,
        sequence=0,
    )
