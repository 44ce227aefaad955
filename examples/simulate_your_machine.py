"""Simulate your own protocol: tills report sales to a ledger over a network that loses datagrams.

A till sends every sale until the ledger has confirmed it. The ledger books a sale once, however
often it arrives. Both are machines without a socket and a clock, so a whole shop runs in simulated
time, under every fault, once per seed. Then the same shop runs with a ledger that has a bug, which
the checkers find.

    python simulate_your_machine.py
    skerry sim run --scenario simulate_your_machine:shop --count 100
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from skerry.protocol.machine import Address, MachineEvent, Statistics, Transmit
from skerry.testing import (
    MS,
    SECOND,
    Duplication,
    EachOnce,
    Eventually,
    Loss,
    Node,
    Partitions,
    Pauses,
    Repeat,
    Restarts,
    Setting,
    World,
    run_scenario,
    scenario,
)

LEDGER = Address("ledger", 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked(MachineEvent):
    """The ledger booked a sale."""

    till: str
    sale: int


class Till:
    """Sends each sale repeatedly until it is confirmed. A sale is one byte string."""

    def __init__(self, setting: Setting) -> None:
        # Unconfirmed sales are on disk and survive a restart.
        self.unconfirmed = [int(text) for text in (setting.disk or b"").split()]
        self._send_due_ns = setting.now_ns
        self._transmits: list[Transmit] = []

    def sell(self, sale: int, now_ns: int) -> None:
        """Add a sale."""
        self.unconfirmed.append(sale)
        self._send_due_ns = now_ns

    def receive(self, data: bytes, _source: Address, _now_ns: int) -> None:
        """Remove a confirmed sale."""
        if int(data) in self.unconfirmed:
            self.unconfirmed.remove(int(data))

    def advance(self, now_ns: int) -> None:
        """Send unconfirmed sales when they are due."""
        if self.unconfirmed and now_ns >= self._send_due_ns:
            self._send_due_ns = now_ns + 50 * MS
            for sale in self.unconfirmed:
                self._transmits.append(Transmit(destination=LEDGER, data=b"%d" % sale))

    def deadline_ns(self) -> int | None:
        """When to send; None if all sales are confirmed."""
        return self._send_due_ns if self.unconfirmed else None

    def take_events(self) -> list[MachineEvent]:
        """A till has no events."""
        return []

    def take_transmits(self) -> list[Transmit]:
        """Sales to send."""
        transmits, self._transmits = self._transmits, []
        return transmits

    def statistics(self) -> Statistics:
        """Nothing is counted."""
        return Statistics()

    def durable(self) -> bytes:
        """Content of the disk after a restart."""
        return b" ".join(b"%d" % sale for sale in self.unconfirmed)


class Ledger:
    """Books sales, each once, and confirms them every time."""

    def __init__(self, setting: Setting) -> None:
        self.booked = {int(text) for text in (setting.disk or b"").split()}
        self._events: list[MachineEvent] = []
        self._transmits: list[Transmit] = []

    def receive(self, data: bytes, source: Address, _now_ns: int) -> None:
        """Book a sale and confirm it. It arrives again if the confirmation was lost."""
        sale = int(data)
        if self.is_new(sale):
            self.booked.add(sale)
            self._events.append(Booked(till=source.host, sale=sale))
        self._transmits.append(Transmit(destination=source, data=data))

    def is_new(self, sale: int) -> bool:
        """Whether this sale is still to be booked."""
        return sale not in self.booked

    def advance(self, now_ns: int) -> None:
        """A ledger has no deadlines."""

    def deadline_ns(self) -> int | None:
        """None: a ledger only answers."""
        return None

    def take_events(self) -> list[MachineEvent]:
        """Booked sales."""
        events, self._events = self._events, []
        return events

    def take_transmits(self) -> list[Transmit]:
        """Confirmations."""
        transmits, self._transmits = self._transmits, []
        return transmits

    def statistics(self) -> Statistics:
        """Nothing is counted."""
        return Statistics()

    def durable(self) -> bytes:
        """Content of the disk after a restart."""
        return b" ".join(b"%d" % sale for sale in sorted(self.booked))


class CarelessLedger(Ledger):
    """Books every sale that arrives, even twice."""

    def is_new(self, sale: int) -> bool:
        """The bug: every sale counts as new."""
        return sale >= 0


def play(world: World, node_count: int, ledger: type[Ledger] = Ledger) -> None:
    """Run one ledger and tills, with ten seconds of faults."""
    book = world.add("ledger", ledger)
    tills = [world.add(f"till-{n}", Till) for n in range(1, node_count)]
    sold: list[int] = []

    # The workload.
    def sell(_: World, rng: Random) -> None:
        till = rng.choice(tills)
        if till.is_running:
            sale = len(sold)
            sold.append(sale)
            till.do(lambda machine, now_ns: machine.sell(sale, now_ns))

    world.drive(Repeat(sell, gap_ns_min=10 * MS, gap_ns_max=100 * MS))

    # The checkers: safety at all times, liveness at the end.
    def sale_of(_: Node[Any], event: MachineEvent) -> int | None:
        return event.sale if isinstance(event, Booked) else None

    def missing(_: World) -> str | None:
        lost = [sale for sale in sold if sale not in book.machine.booked]
        return f"sale {lost[0]} is not booked" if lost else None

    world.watch(EachOnce("booked once", sale_of))
    world.watch(Eventually("all booked", missing))

    # The faults.
    world.inject(Loss(0.2))
    world.inject(Duplication(0.1))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=3 * SECOND, down_ns_max=SECOND))
    world.run(faults_ns=10 * SECOND)


@scenario("tills report sales to a ledger", node_count=4, node_count_min=2)
def shop(world: World, node_count: int) -> None:
    """The correct shop."""
    play(world, node_count)


@scenario("a ledger that books sales twice", node_count=4, node_count_min=2)
def careless_shop(world: World, node_count: int) -> None:
    """The shop with the bug."""
    play(world, node_count, CarelessLedger)


def main() -> None:
    """Run ten seeds of the correct shop, and one of the shop with the bug."""
    for seed in range(10):
        outcome = run_scenario(f"{__name__}:shop", seed)
        assert outcome.error is None, outcome.error
        print(f"seed {seed}: passed, {outcome.event_count} events, {outcome.fault_count} faults")
    outcome = run_scenario(f"{__name__}:careless_shop", 0)
    assert outcome.error is not None
    print(f"found: {outcome.error.checker}: {outcome.error.detail}")


if __name__ == "__main__":
    main()
