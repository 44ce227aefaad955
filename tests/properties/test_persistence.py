"""Journal against a dict: whatever fails and whenever the node dies, the disk has one moment."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import skerry
from skerry.engine.dispatch.cache import Entry
from skerry.engine.persistence import (
    POSITION,
    Journal,
    StoredType,
    WriteBatch,
    store_type,
    stored_type,
)
from skerry.schema.model import StructType

TYPES = [
    skerry.define_types(f"struct {name} [persistent=true] {{ 1: [key] uint32 id; }}")[
        name
    ].descriptor
    for name in ("Boat", "Pier")
]
State = dict[tuple[str, bytes], bytes]


class Disk:
    """What a storage does, in memory."""

    def __init__(self) -> None:
        self.types: dict[str, StoredType] = {}
        self.objects: State = {}
        self.meta: dict[str, int] = {}

    def write(self, batch: WriteBatch) -> None:
        self.types.update({type_.name: type_ for type_ in batch.types})
        self.objects.update({(obj.type_name, obj.key): obj.payload for obj in batch.puts})
        for place in batch.drops:
            self.objects.pop(place, None)
        self.meta.update(batch.meta)


class JournalMachine(RuleBasedStateMachine):
    """A node that publishes and removes, over a disk that fails, and that dies at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.position = 0
        self.live: State = {}
        self.begin()

    def begin(self) -> None:
        self.journal = Journal(rng=Random(1), meta=self.disk.meta)
        self.history: dict[int, State] = {0: dict(self.live)}
        self.batch: WriteBatch | None = None
        self.now_ns = 0

    def note_state(self) -> None:
        self.history[self.journal.number] = dict(self.live)

    @rule(type_=st.sampled_from(TYPES), key=st.sampled_from([b"a", b"b", b"c"]))
    def put(self, type_: StructType, key: bytes) -> None:
        self.position += 1
        payload = b"%d" % self.position
        self.journal.put(
            type_,
            key,
            Entry(
                payload=payload,
                present=0,
                subject="",
                created_ns=0,
                created_from=2,
                modified_ns=0,
                modified_from=2,
                sent_ns=0,
                position=self.position,
            ),
        )
        self.live[type_.name, key] = payload
        self.note_state()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.live)))
        self.position += 1
        self.journal.drop(*place, position=self.position)
        del self.live[place]
        self.note_state()

    @precondition(lambda self: self.batch is None)
    @rule(is_urgent=st.booleans(), wait_ns=st.sampled_from([0, 10**8, 10**10]))
    def take(self, is_urgent: bool, wait_ns: int) -> None:
        self.now_ns += wait_ns
        self.batch = self.journal.take_batch(self.now_ns, is_urgent=is_urgent)

    @precondition(lambda self: self.batch is not None)
    @rule(is_done=st.booleans(), is_told=st.booleans())
    def write(self, is_done: bool, is_told: bool) -> None:
        assert self.batch is not None
        if is_done:
            self.disk.write(self.batch)
        # A connection may break after the database did its work: then it is done and not told.
        if is_done and is_told:
            self.journal.written(self.batch.number)
        else:
            self.journal.failed(self.batch.number, "no room", self.now_ns)
        self.batch = None

    @rule()
    def die_and_come_back(self) -> None:
        confirmed = self.journal.stored
        moments = [number for number, state in self.history.items() if state == self.disk.objects]
        assert max(moments, default=-1) >= confirmed
        for name, _ in self.disk.objects:
            assert stored_type(self.disk.types[name]).name == name
        self.live = dict(self.disk.objects)
        positions = [int(payload) for payload in self.live.values()]
        assert self.disk.meta.get(POSITION, 0) >= max(positions, default=0)
        self.position = self.disk.meta.get(POSITION, 0)
        self.begin()

    @invariant()
    def disk_has_the_state_of_one_moment_not_before_what_was_confirmed(self) -> None:
        assert any(
            state == self.disk.objects
            for number, state in self.history.items()
            if number >= self.journal.stored
        )

    def teardown(self) -> None:
        if self.batch is not None:
            self.write(is_done=True, is_told=True)
        while (batch := self.journal.take_batch(0, is_urgent=True)) is not None:
            self.disk.write(batch)
            self.journal.written(batch.number)
        assert self.disk.objects == self.live
        assert self.journal.stored == self.journal.number
        assert self.journal.statistics().waiting_bytes == 0


def test_definition_on_disk_is_the_one_in_use() -> None:
    assert [stored_type(store_type(type_)) for type_ in TYPES] == TYPES


TestJournal = pytest.mark.slow(JournalMachine.TestCase)
