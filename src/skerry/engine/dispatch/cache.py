"""The current objects, by type and key, still encoded.

One call here is made for each update of a cached type that passes a node, so the module is
compiled, and an entry is as small as it can be: a node may hold millions.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import i64, mypyc_attr

from skerry.codec.codec import Codec
from skerry.codec.envelope import CREATE, REMOVE, UPDATE, Update
from skerry.codec.pieces import merge, merge_pieces, split_whole
from skerry.codec.plans import StructPlan
from skerry.engine.admission.shared_quotas import open_part
from skerry.errors import LimitExceeded
from skerry.limits import (
    CACHE_BYTES_MAX,
    CACHE_OBJECT_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    SHELF_HOLE_COUNT_MAX,
)

__all__ = ["Cache", "Entry", "Share", "Shelf"]


# Nothing in it leads back to it, so that of millions none has to be looked at for that.
@mypyc_attr(acyclic=True)
class Entry:
    """One object as it is now, and where that came from."""

    def __init__(
        self,
        *,
        payload: bytes,
        present: int,
        subject: str,
        created_ns: int,
        created_from: int,
        modified_ns: int,
        modified_from: int,
        sent_ns: int,
        position: int,
    ) -> None:
        self.payload: bytes = payload
        """Merged from all updates since its creation."""
        self.present: i64 = present
        """Property set of the payload."""
        self.subject: str = subject
        """Empty in a node when it is the default one, to save the memory."""
        self.created_ns: i64 = created_ns
        self.created_from: i64 = created_from
        self.modified_ns: i64 = modified_ns
        self.modified_from: i64 = modified_from
        self.sent_ns: i64 = sent_ns
        """When the publisher of the last update sent it."""
        self.position: i64 = position
        """Of the last update."""
        self.place: i64 = -1
        """In the order of its shelf, also when it is gone from there."""

    def with_payload(self, payload: bytes, present: int) -> Entry:
        """The same facts about another state of the object."""
        made = Entry(
            payload=payload,
            present=present,
            subject=self.subject,
            created_ns=int(self.created_ns),
            created_from=int(self.created_from),
            modified_ns=int(self.modified_ns),
            modified_from=int(self.modified_from),
            sent_ns=int(self.sent_ns),
            position=int(self.position),
        )
        made.place = self.place
        return made


class Share:
    """How much of the cache the objects of one creator take."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.size: i64 = 0


class Shelf:
    """The objects of one type. It stays when they go, so others may hold on to it."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.objects: dict[bytes, Entry] = {}
        self.order: list[Entry | None] = []
        """In which they were made, so that one can go through them while they change; nothing
        where one was that is gone."""
        self.reader_count: i64 = 0
        """Who goes through them just now: until all are done, no place changes."""
        self.own_keys: set[bytes] = set()
        """Of the objects that are not under their default subject, which are few."""
        self.unknown_keys: set[bytes] = set()
        """Keys of the objects that had tags unknown to their type when they were received."""
        self.by_writer: dict[int, dict[bytes, None]] | None = None
        """Keys by the client that changed the object last, if objects of the type are removed with
        that client; else None."""

    def add(self, key: bytes, entry: Entry) -> None:
        """One more object."""
        entry.place = len(self.order)
        self.order.append(entry)
        self.objects[key] = entry
        if entry.subject:
            self.own_keys.add(key)
        if self.by_writer is not None:
            self.by_writer.setdefault(int(entry.modified_from), {})[key] = None

    def index_writers(self, is_wanted: bool) -> None:
        """Keep an index of the objects by their last writer, or drop it."""
        if not is_wanted:
            self.by_writer = None
        elif self.by_writer is None:
            self.by_writer = {}
            for key, entry in self.objects.items():
                self.by_writer.setdefault(int(entry.modified_from), {})[key] = None

    def take_written(self, writer: int) -> dict[bytes, None]:
        """Keys of the objects that a client changed last; removes them from the index."""
        by_writer = self.by_writer
        return {} if by_writer is None else by_writer.pop(writer, {})

    def unindex(self, key: bytes, writer: i64) -> None:
        """Remove an object from the index."""
        by_writer = self.by_writer
        if by_writer is not None:
            keys = by_writer.get(int(writer))
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del by_writer[int(writer)]

    def move(self, key: bytes, entry: Entry, subject: str) -> None:
        """Put an object under another subject."""
        if subject:
            self.own_keys.add(key)
        else:
            self.own_keys.discard(key)
        entry.subject = subject

    def take(self, key: bytes) -> Entry | None:
        """Let an object go; gives what it was, if it was there."""
        entry = self.objects.pop(key, None)
        if entry is not None:
            if entry.subject:
                self.own_keys.discard(key)
            if self.unknown_keys:
                self.unknown_keys.discard(key)
            if self.by_writer is not None:
                self.unindex(key, entry.modified_from)
            self.order[entry.place] = None
            hole_count = len(self.order) - len(self.objects)
            if hole_count > len(self.objects) + SHELF_HOLE_COUNT_MAX and self.reader_count == 0:
                self._close_up()
        return entry

    def _close_up(self) -> None:
        left: list[Entry | None] = []
        for entry in self.order:
            if entry is not None:
                entry.place = len(left)
                left.append(entry)
        self.order = left


class Cache:
    """Objects of cached types. An update changes one object; nothing else does."""

    def __init__(
        self,
        *,
        object_count_max: int = CACHE_OBJECT_COUNT_MAX,
        bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self._object_count_max: i64 = object_count_max
        self._bytes_max: i64 = bytes_max
        self._open_count_max: i64 = open_part(object_count_max)
        self._open_bytes_max: i64 = open_part(bytes_max)
        """What untrusted clients may use together."""
        self._shelves: dict[str, Shelf] = {}
        self._mentions: dict[int, int] = {}
        """How often each client stands in an entry, as its creator or as the last to change it."""
        self._shares: dict[int, Share] = {}
        """By the client that made the objects."""
        self._addresses: dict[int, str] = {}
        """Where clients come from that are there, or made objects that are."""
        self._address_shares: dict[str, Share] = {}
        self._present: set[int] = set()
        self._trusted: set[int] = set()
        self._address_count_max: i64 = CACHE_OBJECT_COUNT_MAX
        self._address_bytes_max: i64 = CACHE_BYTES_MAX
        self.payload_bytes_max: i64 = PAYLOAD_BYTES_MAX
        """One object, whatever updates it was merged from."""
        self._spared: i64 = -1
        self.object_count: i64 = 0
        self.payload_bytes: i64 = 0

    def spare(self, client: int) -> None:
        """Take whatever this client says, as a node's words on its clients, which are so many."""
        self._spared = client

    def bound_addresses(self, *, count_max: int, bytes_max: int) -> None:
        """Say what the objects that clients of one address made may take."""
        self._address_count_max = count_max
        self._address_bytes_max = bytes_max

    def locate(self, client: int, address: str) -> None:
        """Say where a client comes from, before it makes any object."""
        self._addresses[client] = address
        self._present.add(client)

    def trust(self, client: int) -> None:
        """Allow a client that was located to use the reserve."""
        self._trusted.add(client)

    def left(self, client: int) -> None:
        """A client is gone, and makes no more objects."""
        self._present.discard(client)
        self._trusted.discard(client)
        if client not in self._shares:
            self._addresses.pop(client, None)

    def shelf(self, type_name: str) -> Shelf:
        """The objects of a type, none at first."""
        shelf = self._shelves.get(type_name)
        if shelf is None:
            shelf = self._shelves[type_name] = Shelf(type_name)
        return shelf

    def forget_shelf(self, type_name: str) -> None:
        """Drop the empty shelf of a type that is no longer in use."""
        shelf = self._shelves.pop(type_name, None)
        assert shelf is None or not shelf.objects

    def put(
        self,
        shelf: Shelf,
        plan: StructPlan,
        key: bytes,
        update: bytes,
        present: i64,
        attributes: i64,
        subject: str,
        sender: i64,
        sent_ns: i64,
        time_ns: i64,
        position: i64,
        count_max: i64 = CACHE_OBJECT_COUNT_MAX,
        bytes_max: i64 = CACHE_BYTES_MAX,
    ) -> Entry:
        """Create the object, or merge an update into it; gives the entry as it is then.

        `present` is the property set of the update.

        The last two bound what the objects of one client may take: those of the sender, and those
        of others that it makes larger.

        LimitExceeded when there is no room, and then nothing is changed.
        """
        known = shelf.objects.get(key)
        if known is None:
            self._check_share(sender, 1, len(update), count_max, bytes_max)
            self._make_room(1, len(update), sender)
            entry = Entry(
                payload=update,
                present=present,
                subject=subject,
                created_ns=time_ns,
                created_from=sender,
                modified_ns=time_ns,
                modified_from=sender,
                sent_ns=sent_ns,
                position=position,
            )
            shelf.add(key, entry)
            self._mention(sender, 2)
            self._change_share(sender, 1, len(entry.payload))
            return entry
        if (known.present | present) & ~attributes & ~plan.key_mask == 0:
            # All there was and is, is named by the update: nothing of the old state is left.
            payload = update
        else:
            payload = merge(plan, known.payload, update, attributes)
            if len(payload) > self.payload_bytes_max:
                raise LimitExceeded(
                    what=f"size of a merged object of {plan.name} in bytes (update_bytes_max)",
                    value=len(payload),
                    limit=int(self.payload_bytes_max),
                )
            named = attributes & ~plan.key_mask
            present = (known.present & ~named) | (present & (named | plan.key_mask))
        change = len(payload) - len(known.payload)
        if change:
            creator = known.created_from
            if change > 0 and sender != self._spared and creator != self._spared:
                # It counts for the one that made the object, so it is bounded there.
                self._check_share(creator, 0, change, count_max, bytes_max)
            self._make_room(0, change, sender)
            self._change_share(creator, 0, change)
        known.payload = payload
        known.present = present
        if known.subject != subject:
            shelf.move(key, known, subject)
        known.modified_ns = time_ns
        known.sent_ns = sent_ns
        known.position = position
        if known.modified_from != sender:
            self._mention(known.modified_from, -1)
            self._mention(sender, 1)
            if shelf.by_writer is not None:
                shelf.unindex(key, known.modified_from)
                shelf.by_writer.setdefault(int(sender), {})[key] = None
            known.modified_from = sender
        return known

    def drop(self, shelf: Shelf, key: bytes) -> Entry | None:
        """Forget an object; gives what it was, if it was there."""
        entry = shelf.take(key)
        if entry is None:
            return None
        self.object_count -= 1
        self.payload_bytes -= len(entry.payload)
        self._mention(entry.created_from, -1)
        self._mention(entry.modified_from, -1)
        self._change_share(entry.created_from, -1, -len(entry.payload))
        return entry

    def restore(self, shelf: Shelf, key: bytes, entry: Entry) -> None:
        """Take an object back as it was stored."""
        assert key not in shelf.objects
        self.object_count += 1
        self.payload_bytes += len(entry.payload)
        shelf.add(key, entry)
        self._mention(entry.created_from, 1)
        self._mention(entry.modified_from, 1)
        self._change_share(entry.created_from, 1, len(entry.payload))

    def mentions(self, client: int) -> bool:
        """Whether any object was made or last changed by a client."""
        return client in self._mentions

    def share(self, client: int) -> tuple[int, int]:
        """Count and bytes of the objects that a client made."""
        share = self._shares.get(client)
        return (0, 0) if share is None else (int(share.count), int(share.size))

    def address_share(self, address: str) -> tuple[int, int]:
        """Count and bytes of the objects that clients of an address made."""
        share = self._address_shares.get(address)
        return (0, 0) if share is None else (int(share.count), int(share.size))

    def apply(self, update: Update, codec: Codec) -> tuple[int, Entry] | None:
        """Merge an update: what happened to its object, and how that is (or was last).

        None when nothing happened: something unknown was removed. LimitExceeded when there is no
        room, and then nothing is changed.
        """
        shelf = self.shelf(update.type_name)
        plan = codec.plan
        pieces = split_whole(plan, update.payload)
        if update.operation == REMOVE:
            gone = self.drop(shelf, update.key)
            if gone is None:
                return None
            # The last state, with what the remove itself carried.
            payload = merge_pieces(plan, gone.payload, pieces, update.present)
            return REMOVE, gone.with_payload(payload, split_whole(plan, payload).present)
        operation = UPDATE if update.key in shelf.objects else CREATE
        entry = self.put(
            shelf,
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

    def get(self, type_name: str, key: bytes) -> Entry | None:
        """The object with that key, if there is one."""
        shelf = self._shelves.get(type_name)
        return None if shelf is None else shelf.objects.get(key)

    def objects(self, type_name: str) -> Iterator[tuple[bytes, Entry]]:
        """All objects of a type with their keys, in the order of the keys' bytes."""
        shelf = self._shelves.get(type_name)
        objects: dict[bytes, Entry] = {} if shelf is None else shelf.objects
        return iter([(key, objects[key]) for key in sorted(objects)])

    def type_names(self) -> tuple[str, ...]:
        """Types that have objects."""
        return tuple([shelf.name for shelf in self._shelves.values() if shelf.objects])

    def count(self, type_name: str) -> int:
        """How many objects of a type there are."""
        shelf = self._shelves.get(type_name)
        return 0 if shelf is None else len(shelf.objects)

    def _mention(self, client: i64, change: i64) -> None:
        number = int(client)
        count = self._mentions.get(number, 0) + int(change)
        if count:
            self._mentions[number] = count
        else:
            del self._mentions[number]

    def _check_share(
        self, client: i64, count: i64, size: i64, count_max: i64, bytes_max: i64
    ) -> None:
        _check_room(self._shares.get(int(client)), count, size, count_max, bytes_max, "client")
        address = self._addresses.get(int(client))
        if address is not None:
            share = self._address_shares.get(address)
            count_max, bytes_max = self._address_count_max, self._address_bytes_max
            _check_room(share, count, size, count_max, bytes_max, "address")

    def _change_share(self, client: i64, count: i64, size: i64) -> None:
        number = int(client)
        share = self._shares.get(number)
        if share is None:
            share = self._shares[number] = Share()
        share.count += count
        share.size += size
        address = self._addresses.get(number)
        if address is not None:
            self._change_address(address, count, size)
        if share.count == 0:
            del self._shares[number]
            if address is not None and number not in self._present:
                del self._addresses[number]

    def _change_address(self, address: str, count: i64, size: i64) -> None:
        share = self._address_shares.get(address)
        if share is None:
            share = self._address_shares[address] = Share()
        share.count += count
        share.size += size
        if share.count == 0:
            del self._address_shares[address]

    def _check_reserve(
        self, what: str, value: i64, open_max: i64, value_max: i64, sender: i64
    ) -> None:
        """Raise LimitExceeded unless a client may use the reserve and some of it is left."""
        is_stranger = int(sender) in self._present and int(sender) not in self._trusted
        limit = open_max if is_stranger else value_max
        if value > limit:
            raise LimitExceeded(what=what, value=int(value), limit=int(limit))

    def _make_room(self, count: i64, size: i64, sender: i64) -> None:
        objects = self.object_count + count
        if sender == self._spared:
            self.object_count = objects
            self.payload_bytes += size
            return
        if count > 0 and objects > self._open_count_max:
            self._check_reserve(
                "count of cached objects",
                objects,
                self._open_count_max,
                self._object_count_max,
                sender,
            )
        payload_bytes = self.payload_bytes + size
        if size > 0 and payload_bytes > self._open_bytes_max:
            self._check_reserve(
                "bytes of cached objects",
                payload_bytes,
                self._open_bytes_max,
                self._bytes_max,
                sender,
            )
        self.object_count = objects
        self.payload_bytes = payload_bytes


def _check_room(
    share: Share | None, count: i64, size: i64, count_max: i64, bytes_max: i64, whose: str
) -> None:
    """LimitExceeded when there would be more of somebody's objects than there may."""
    is_new = count > 0
    if share is not None:
        count += share.count
        size += share.size
    if is_new and count > count_max:
        what = f"count of objects of one {whose}"
        raise LimitExceeded(what=what, value=int(count), limit=int(count_max))
    if size > bytes_max:
        what = f"bytes of objects of one {whose}"
        raise LimitExceeded(what=what, value=int(size), limit=int(bytes_max))
