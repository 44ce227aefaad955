"""Journal: batches, when a change counts as stored, and failures."""

from __future__ import annotations

from random import Random

import pytest

import skerry
from skerry import cbor
from skerry.engine.dispatch.cache import Entry
from skerry.engine.persistence import (
    CLIENT,
    JOURNAL_BYTES_MAX,
    JOURNAL_CHANGE_COUNT_MAX,
    POSITION,
    Journal,
    StoredObject,
    StoredType,
    WriteBatch,
    store_type,
    stored_type,
)
from skerry.errors import StorageError
from skerry.limits import UPDATE_BYTES_DEFAULT

TYPES = skerry.define_types(
    """
    enum Colour { 1: red, 4: green }
    struct Place [substruct_only] { 1: float64 lat; 2: Colour colour; }
    struct Boat [persistent=true] { 1: [key] uint32 id; 2: vector<Place> track; }
    struct Pier [persistent=true, scope="server"] { 1: [key] string name; }
    """
)
BOAT = TYPES.Boat.descriptor
PIER = TYPES.Pier.descriptor
SECOND_NS = 1_000_000_000


def journal_of(*, interval_ns: int = 0) -> Journal:
    return Journal(rng=Random(1), interval_ns=interval_ns)


def is_full(journal: Journal) -> bool:
    """A function, because a type checker assumes that a property does not change."""
    return journal.is_full


def entry(payload: bytes = b"\xa0", *, position: int = 1, sender: int = 2) -> Entry:
    return Entry(
        payload=payload,
        present=0,
        subject="/x",
        created_ns=10,
        created_from=sender,
        modified_ns=20,
        modified_from=sender,
        sent_ns=30,
        position=position,
    )


def taken(journal: Journal, now_ns: int = 0) -> WriteBatch:
    batch = journal.take_batch(now_ns)
    assert batch is not None
    return batch


def test_empty_journal_has_nothing_to_write_and_nothing_to_wait_for() -> None:
    journal = journal_of()
    assert (journal.number, journal.stored) == (0, 0)
    assert journal.take_batch(0) is None
    assert journal.deadline_ns() is None
    assert not journal.is_full


def test_a_type_is_stored_once_with_the_first_of_its_objects() -> None:
    journal = journal_of()
    journal.put(BOAT, b"a", entry())
    batch = taken(journal)
    assert batch.types == (store_type(BOAT),)
    assert [obj.key for obj in batch.puts] == [b"a"]
    journal.written(batch.number)
    journal.put(BOAT, b"b", entry())
    assert taken(journal).types == ()


def test_all_facts_of_an_entry_are_stored() -> None:
    journal = journal_of()
    source = Entry(
        payload=b"\xa1\x01\x05",
        present=2,
        subject="/own/subject",
        created_ns=1,
        created_from=2,
        modified_ns=3,
        modified_from=4,
        sent_ns=5,
        position=6,
    )
    journal.put(BOAT, b"key", source)
    # An entry of the cache goes on changing; what was put in does not.
    source.payload = b"\xa0"
    (stored,) = taken(journal).puts
    assert stored == StoredObject(
        type_name="Boat",
        key=b"key",
        payload=b"\xa1\x01\x05",
        subject="/own/subject",
        created_ns=1,
        created_from=2,
        modified_ns=3,
        modified_from=4,
        sent_ns=5,
        position=6,
    )


def test_changes_of_one_object_are_merged_and_those_of_others_are_not() -> None:
    journal = journal_of()
    journal.put(BOAT, b"a", entry(b"1"))
    journal.put(BOAT, b"b", entry(b"2"))
    journal.put(PIER, b"a", entry(b"3"))
    journal.put(BOAT, b"a", entry(b"4"))
    journal.drop("Boat", b"b")
    batch = taken(journal)
    puts = {(obj.type_name, obj.key): obj.payload for obj in batch.puts}
    assert puts == {("Boat", b"a"): b"4", ("Pier", b"a"): b"3"}
    assert batch.drops == (("Boat", b"b"),)
    assert journal.statistics().waiting_count == 5


def test_stored_advances_to_the_number_of_the_batch() -> None:
    journal = journal_of()
    journal.put(BOAT, b"a", entry())
    batch = taken(journal)
    first = journal.number
    journal.put(BOAT, b"a", entry())
    assert journal.stored == 0
    assert journal.take_batch(0) is None, "one batch is under way at a time"
    assert journal.deadline_ns() is None
    journal.written(batch.number)
    assert journal.stored == first == batch.number
    assert journal.stored < journal.number
    journal.written(taken(journal).number)
    assert journal.stored == journal.number
    assert journal.statistics().batch_count == 2


def test_a_failed_batch_is_merged_under_later_changes() -> None:
    journal = journal_of()
    journal.put(BOAT, b"a", entry(b"old"))
    journal.put(BOAT, b"b", entry(b"kept"))
    journal.put(BOAT, b"c", entry(b"gone"))
    batch = taken(journal)
    journal.put(BOAT, b"a", entry(b"new"))
    journal.drop("Boat", b"c")
    journal.failed(batch.number, "the disk is full", now_ns=0)
    assert journal.stored == 0
    again = taken(journal, SECOND_NS)
    assert again.types == batch.types
    assert {obj.key: obj.payload for obj in again.puts} == {b"a": b"new", b"b": b"kept"}
    assert again.drops == (("Boat", b"c"),)
    journal.written(again.number)
    assert journal.stored == journal.number
    assert journal.statistics().waiting_bytes == 0


def test_the_delay_of_attempts_grows_until_one_succeeds() -> None:
    journal = journal_of()
    journal.put(BOAT, b"a", entry())
    now_ns, delays = 0, []
    for _ in range(12):
        journal.failed(taken(journal, now_ns).number, "no room", now_ns)
        due_ns = journal.deadline_ns()
        assert due_ns is not None
        assert journal.take_batch(due_ns - 1) is None
        delays.append(due_ns - now_ns)
        now_ns = due_ns
    assert delays[0] <= SECOND_NS // 10
    assert 5 * SECOND_NS <= delays[-1] <= 10 * SECOND_NS
    statistics = journal.statistics()
    assert (statistics.failure_count, statistics.trouble) == (12, "no room")
    journal.written(taken(journal, now_ns).number)
    assert journal.trouble == ""
    journal.put(BOAT, b"a", entry())
    journal.failed(taken(journal, now_ns).number, "again", now_ns)
    assert (journal.deadline_ns() or 0) - now_ns <= SECOND_NS // 10


def test_an_urgent_batch_waits_neither_for_the_interval_nor_for_a_retry() -> None:
    journal = journal_of(interval_ns=SECOND_NS)
    journal.put(BOAT, b"a", entry())
    journal.failed(taken(journal).number, "no", 0)
    batch = journal.take_batch(0, is_urgent=True)
    assert batch is not None
    journal.written(batch.number)
    assert journal.take_batch(0, is_urgent=True) is None


def test_batches_are_at_least_one_interval_apart() -> None:
    journal = journal_of(interval_ns=SECOND_NS)
    journal.put(BOAT, b"a", entry())
    journal.written(taken(journal, 5).number)
    journal.put(BOAT, b"a", entry())
    assert journal.deadline_ns() == 5 + SECOND_NS
    assert journal.take_batch(4 + SECOND_NS) is None
    assert taken(journal, 5 + SECOND_NS).number == journal.number


def test_the_highest_position_and_client_are_stored_and_never_decrease() -> None:
    journal = Journal(rng=Random(1), meta={POSITION: 100, CLIENT: 7, "other": 3})
    journal.put(BOAT, b"a", entry(position=90, sender=5))
    batch = taken(journal)
    assert batch.meta == {}
    journal.written(batch.number)
    journal.put(BOAT, b"a", entry(position=101, sender=9))
    journal.drop("Boat", b"a", position=105)
    assert journal.meta == {POSITION: 105, CLIENT: 9, "other": 3}
    batch = taken(journal)
    assert batch.meta == {POSITION: 105, CLIENT: 9}
    journal.drop("Boat", b"a", position=106)
    journal.failed(batch.number, "no", 0)
    assert taken(journal, SECOND_NS).meta == {POSITION: 106, CLIENT: 9}


def test_another_definition_of_a_type_is_stored_once() -> None:
    other = skerry.define_types(
        "struct Boat [persistent=true] { 1: [key] uint32 id; 3: string name; }"
    ).Boat.descriptor
    journal = journal_of()
    journal.describe(BOAT)
    journal.describe(BOAT)
    assert journal.number == 1
    journal.put(other, b"a", entry())
    assert taken(journal).types == (store_type(other),)


@pytest.mark.slow
def test_a_journal_is_full_at_its_limit_of_changes_and_still_accepts_removals() -> None:
    journal = journal_of()
    for number in range(JOURNAL_CHANGE_COUNT_MAX - 1):
        journal.drop("Boat", number.to_bytes(4, "big"))
    assert not is_full(journal)
    journal.drop("Boat", bytes(4))
    assert not is_full(journal), "changes of one object are joined"
    journal.drop("Boat", b"one more")
    assert is_full(journal)
    journal.drop("Boat", b"and one by the node itself")
    batch = taken(journal)
    assert is_full(journal), "what is under way is not yet stored"
    assert len(batch.drops) == JOURNAL_CHANGE_COUNT_MAX + 1
    journal.written(batch.number)
    assert not is_full(journal)


def test_a_journal_is_full_at_its_limit_of_bytes() -> None:
    journal = journal_of()
    payload = bytes(UPDATE_BYTES_DEFAULT)
    count = 0
    while not is_full(journal):
        journal.put(BOAT, b"%d" % count, entry(payload))
        count += 1
    assert (
        (count - 1) * UPDATE_BYTES_DEFAULT
        < JOURNAL_BYTES_MAX
        <= count * (UPDATE_BYTES_DEFAULT + 300)
    )
    journal.put(BOAT, b"0", entry())
    assert not is_full(journal), "the large one is replaced"
    batch = taken(journal)
    journal.put(BOAT, b"0", entry(payload))
    assert is_full(journal)
    journal.failed(batch.number, "no", 0)
    assert is_full(journal)
    journal.put(BOAT, b"0", entry())
    assert not is_full(journal)


def test_wrong_calls_of_the_runtime_are_detected() -> None:
    journal = journal_of()
    with pytest.raises(AssertionError, match="no batch is being written"):
        journal.written(0)
    journal.put(BOAT, b"a", entry())
    batch = taken(journal)
    with pytest.raises(AssertionError, match="another batch"):
        journal.failed(batch.number + 1, "no", 0)


def test_a_stored_definition_contains_the_types_inside() -> None:
    stored = store_type(BOAT)
    assert stored.name == "Boat"
    assert stored_type(stored) == BOAT
    assert stored_type(store_type(PIER)) == PIER


@pytest.mark.parametrize(
    "definition",
    [
        b"",
        b"\xff",
        cbor.dumps(5),
        cbor.dumps([5]),
        cbor.dumps([["StructDescriptorData", b"\xff"]]),
        cbor.dumps([["NoSuchType", b"\xa0"]]),
        cbor.dumps([["StructDescriptorData", "text"]]),
        cbor.dumps([[[], b"\xa0"]]),
        store_type(PIER).definition,
        cbor.dumps(cbor.loads(store_type(BOAT).definition)[-1:]),
    ],
)
def test_a_damaged_definition_is_reported_with_the_name_of_its_type(definition: bytes) -> None:
    with pytest.raises(
        StorageError, match="the stored definition of Boat cannot be read"
    ) as notified:
        stored_type(StoredType(name="Boat", definition=definition))
    assert notified.value.hint is not None


def test_a_stored_enum_is_rejected() -> None:
    definition = store_type(BOAT).definition
    with pytest.raises(StorageError, match="it is an enum"):
        stored_type(StoredType(name="Colour", definition=definition))
