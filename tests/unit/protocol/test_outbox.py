"""What machines put out."""

from __future__ import annotations

from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.outbox import Outbox


class Talker(Outbox):
    def talk(self, data: bytes) -> None:
        self._events.append(MachineEvent())
        self._transmits.append(Transmit(destination=Address("b"), data=data))


def test_output_is_taken_once_and_in_order() -> None:
    talker = Talker()
    talker.talk(b"1")
    talker.talk(b"2")
    taken = talker.take_transmits()
    assert [transmit.data for transmit in taken] == [b"1", b"2"]
    assert talker.take_transmits() == []
    assert len(talker.take_events()) == 2
    assert talker.take_events() == []


def test_taken_updates_do_not_change() -> None:
    talker = Talker()
    talker.talk(b"1")
    taken = talker.take_transmits()
    talker.talk(b"2")
    assert len(taken) == 1
