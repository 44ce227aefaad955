"""The guided tour: a node and programs that share a space through it, and what becomes of them.

Everything is real: processes, sockets, a storage on disk, and kill -9. What the programs really did
they tell the tour by their own lines, and at the end it is compared with what others saw.
"""

from __future__ import annotations

import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any, Final

import skerry
from skerry.apps.demo.fleet import Alarm, BearingRequest, Vessel, Voyage, close_pairs
from skerry.apps.demo.history import DemoHistory, missing_extra
from skerry.apps.demo.stage import DemoProgram, DemoStage
from skerry.apps.top import NodeWatch
from skerry.client.api.sync import Space
from skerry.errors import ConnectFailed, Refused, RequestError, StartFailed, StopTimedOut
from skerry.runtime.clock import wall_ns

__all__ = ["ACT_COUNT", "Act", "Check", "Tour"]

_WAIT_S_MAX: Final = 20.0
"""What does not happen in so long does not happen."""
_LEDGER_S_MAX: Final = 5.0
"""A node tells its ledger each second."""
_LOOK_S: Final = 0.02
_STOPPED_S: Final = 3.0
"""How long the slow one is held: long enough for all that is on its way to pile up."""
_FIGURES: Final = ("updates", "objects", "types", "nodes", "clients", "lost")
"""Of the report, those that are told."""
_SOCKET_CHARS_MAX: Final = 100
"""Longer paths of Unix sockets do not fit what the system has for them."""
_PROGRAMS: Final = ("-m", "skerry.apps.demo.programs")
_FIRST: Final = {"north": 265_000_000, "south": 266_000_000}
ACT_COUNT: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something the demo promised, and whether it holds."""

    promise: str
    holds: bool
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One part of the tour."""

    title: str
    why: str
    """What it shows."""


class Tour:
    """Plays the acts one by one. `tell` hears what happens; `is_stopped` ends the waiting."""

    def __init__(
        self,
        stage: DemoStage,
        *,
        tell: Callable[[str], None],
        is_stopped: Callable[[], bool],
        seconds: float,
        vessel_count: int,
        seed: int,
        folder: Path | None = None,
        has_tables: bool = True,
    ) -> None:
        """Recording, tables and report go to a folder of the stage unless one is named."""
        self._stage = stage
        self._tell = tell
        self._is_stopped = is_stopped
        self._seconds = seconds
        self._count = vessel_count
        self._seed = seed
        self._started_s = monotonic()
        self._endpoint = _endpoint(stage)
        self._node: DemoProgram | None = None
        self._fleets: dict[str, DemoProgram] = {}
        self._others: dict[str, DemoProgram] = {}
        self._events: Counter[str] = Counter()
        self._states: list[str] = []
        self._confirmed: set[int] = set()
        self._history = DemoHistory(stage, folder or stage.path / "past", tell=tell)
        self._has_tables = has_tables
        self._settled: tuple[int, dict[int, tuple[float, float]]] | None = None
        """A moment, and where all vessels were then."""
        self._recorded: dict[str, Any] = {}
        self.checks: list[Check] = []

    def acts(self) -> Iterator[Act]:
        """Each act as it begins; whoever asks for the next one lets it play."""
        yield Act(
            title="a node",
            why="takes what programs publish, keeps what is current, tells who asked",
        )
        self._node = self._start_node()
        with self._connect() as space:
            self._history.start(self._endpoint)
            self._wait(lambda: self._history.is_heard(space), "the recorder hears everything")
            space.on_state(lambda change: self._states.append(str(change.state)))
            space.subscribe(Vessel, self._count_event)
            yield Act(
                title="programs",
                why="two fleets publish vessels, a lookout raises alarms; all are processes",
            )
            self._open(space)
            yield Act(
                title="somebody slow",
                why="who does not keep up is told the last state of things, and holds up nobody",
            )
            self._hold_slow(space)
            yield Act(
                title="kill -9 for a program",
                why="what it stood for goes with it, and comes back with it",
            )
            self._lose_program(space)
            yield Act(
                title="questions",
                why="one pilot answers, another stands by; and a vessel is its fleet's alone",
            )
            self._ask_pilots(space)
            yield Act(
                title="kill -9 for the node",
                why="what was confirmed is on disk, and programs connect again by themselves",
            )
            self._lose_node(space)
            yield Act(title="the end", why="everybody tells what they know, and it is compared")
            self._settle(space)
        self._end_all()
        yield Act(title="the recording", why="everything that crossed the space is kept")
        self._check_recording()
        yield Act(title="the past", why="Spark makes tables of it, which answer for any moment")
        self._ask_tables()

    # -- the acts

    def _start_node(self) -> DemoProgram:
        config = self._stage.path / "skerry.toml"
        storage = self._stage.path / "objects.db"
        config.write_text(
            f'[node]\nname = "demo"\nlisten = ["{self._endpoint}"]\nmetrics = "off"\n'
            f'[node.storage]\nurl = "sqlite:{storage}"\n',
            encoding="utf-8",
        )
        node = self._stage.start("node", "-m", "skerry", "node", "run", "--config", str(config))
        self._tell(f"node: process {node.number} at {self._endpoint}")
        return node

    def _connect(self) -> Space:
        end_s = monotonic() + _WAIT_S_MAX
        while True:
            try:
                return skerry.connect(self._endpoint, name="tour", types=[Vessel, Voyage, Alarm])
            except ConnectFailed:
                if monotonic() > end_s:
                    raise
                sleep(_LOOK_S)

    def _open(self, space: Space) -> None:
        for name in _FIRST:
            self._fleets[name] = self._start_fleet(name)
        for program, name in (("lookout", "lookout"), ("slow", "north")):
            self._others[program] = self._start_other(program, name)
        for started in (*self._fleets.values(), *self._others.values()):
            started.wait_said("ready")
            self._tell(f"{started.name}: process {started.number} is ready")
        vessels = space.container(Vessel)
        self._wait(lambda: len(vessels) >= 2 * self._count, "all vessels are seen")
        self._tell(f"{len(vessels)} vessels are under way")
        self._sail_until(0.2)
        alarms = len(space.container(Alarm))
        self._tell(f"{self._events.total()} updates seen so far; {alarms} pairs are too close")

    def _hold_slow(self, space: Space) -> None:
        slow = self._others["slow"]
        before = self._events.total()
        slow.signal(signal.SIGSTOP)
        self._tell(
            f"slow: stopped for {_STOPPED_S:.0f} s, while 5 MB of radar a second come for it"
        )
        try:
            self._pause(_STOPPED_S)
        finally:
            slow.signal(signal.SIGCONT)
        told = self._events.total() - before
        ledger = self._ledger(space, slow)
        conflated = ledger.conflated if ledger is not None else 0
        self._tell(f"meanwhile others saw {told} updates; {conflated} pictures were joined for it")
        self._check(
            "somebody slow holds up nobody",
            told >= 2 * self._count,
            f"{told} updates seen by others meanwhile",
        )
        self._check_ledger(space)
        self._sail_until(0.4)

    def _lose_program(self, space: Space) -> None:
        vessels = space.container(Vessel)
        south = self._fleets["south"]
        south.kill()
        self._note_confirmed(south)
        self._tell(f"south: process {south.number} is killed")
        is_gone = self._wait(lambda: all(not _is_of("south", mmsi) for mmsi in vessels))
        self._tell(f"its vessels are gone; {len(vessels)} are left")
        self._fleets["south"] = self._start_fleet("south")
        self._fleets["south"].wait_said("ready")
        is_back = self._wait(lambda: sum(_is_of("south", mmsi) for mmsi in vessels) >= self._count)
        self._tell(f"south: process {self._fleets['south'].number}; {len(vessels)} vessels again")
        self._check(
            "what a program stood for goes with it and comes back with it",
            is_gone and is_back,
            f"{self._count} vessels",
        )
        self._sail_until(0.6)

    def _ask_pilots(self, space: Space) -> None:
        pilots = []
        for name in ("Ada", "Bo"):
            # One after the other: who comes first answers.
            pilots.append(self._start_other("pilot", name))
            pilots[-1].wait_said("ready")
            self._tell(f"{name}: process {pilots[-1].number} is ready")
        first = self._ask(space)
        pilots[0].kill()
        self._tell(f"{pilots[0].name}: process {pilots[0].number} is killed")
        second = self._ask(space)
        self._others["pilot"] = pilots[1]
        self._check(
            "questions are answered, also when who answered them is killed",
            (first, second) == ("Ada", "Bo"),
            f"by {first}, then by {second}",
        )
        vessel = Vessel(mmsi=_FIRST["north"], name="stolen")
        space.publish(vessel)
        try:
            space.flush()
            answer = "nothing"
        except Refused as error:
            answer = str(error)
        self._tell(f"to somebody who takes a vessel of another, the node says: {answer}")
        names = {found.name for found in space.container(Vessel).values()}
        self._check(
            "nobody else can change what a program owns",
            "owned" in answer and vessel.name not in names,
            f"{vessel.mmsi} is what it was",
        )

    def _ask(self, space: Space) -> str | None:
        """Who answers a question now; the first may meet the end of who was to answer it."""
        question = BearingRequest(lat=57.7, lon=11.8, to_lat=57.6, to_lon=11.3)
        for attempt in range(2):
            try:
                answer = space.request(question, to="pilot", timeout=_WAIT_S_MAX)
            except RequestError as error:
                self._tell(f"question {attempt + 1}: {error}")
            else:
                self._tell(f"{answer.pilot}: course {answer.course:.0f}, {answer.miles:.1f} miles")
                return str(answer.pilot)
        return None

    def _lose_node(self, space: Space) -> None:
        assert self._node is not None
        for fleet in self._fleets.values():
            fleet.wait_said("confirmed")
        voyages = space.container(Voyage)
        self._check_ledger(space)
        programs = [*self._fleets.values(), *self._others.values()]
        said = {program.name: len(program.said("state")) for program in programs}
        for fleet in self._fleets.values():
            self._note_confirmed(fleet)
        self._node.kill()
        self._tell(f"node: process {self._node.number} is killed")
        is_lost = self._wait(lambda: self._states[-1:] == ["disconnected"])
        self._tell(f"{len(self._confirmed)} voyages were confirmed before; now there is no node")
        self._node = self._start_node()
        is_back = self._wait(lambda: self._states[-1:] == ["connected"])
        for program in programs:
            program.wait_said("state", _is_connected, after=said[program.name])
        self._tell(f"all {len(programs)} programs are connected again")
        self._wait(lambda: self._history.is_heard(space), "the recorder hears everything again")
        is_stored = self._wait(lambda: self._confirmed <= set(voyages))
        self._check(
            "what was confirmed is there after kill -9 of the node",
            is_stored and bool(self._confirmed),
            f"{len(self._confirmed & set(voyages))} of {len(self._confirmed)} voyages",
        )
        self._check(
            "programs connect again by themselves",
            is_lost and is_back,
            f"{len(programs)} programs, and the tour",
        )
        self._sail_until(0.95)

    def _settle(self, space: Space) -> None:
        while self._seconds == 0 and not self._is_stopped():
            sleep(_LOOK_S)
        frozen = {}
        for name, fleet in self._fleets.items():
            fleet.tell("freeze")
            frozen[name] = fleet.wait_said("frozen")
        places = _places(*(line["places"] for line in frozen.values()))
        reports = {}
        for name in ("lookout", "slow"):
            self._others[name].tell("report")
            reports[name] = self._others[name].wait_said("report")
        space.flush()
        self._settled = wall_ns(), places
        seen = {key: (v.lat, v.lon) for key, v in space.container(Vessel).items()}
        self._check(
            "the node's picture and the lookout's are the fleets as they are",
            seen == places == _places(reports["lookout"]["places"]),
            f"{len(places)} vessels, {reports['lookout']['event_count']} events",
        )
        expected, alarms = set(close_pairs(places)), set(space.container(Alarm))
        self._check(
            "no alarm is missing, and none is false",
            alarms == expected,
            f"{len(alarms)} now, {reports['lookout']['raised_count']} raised in all",
        )
        number, count = frozen["north"]["number"], reports["slow"]["seen_count"]
        self._check(
            "somebody slow has the newest state",
            reports["slow"]["number"] == number,
            f"picture {reports['slow']['number']} of {number}, having looked at {count}",
        )
        self._check_ledger(space)

    def _end_all(self) -> None:
        assert self._node is not None
        programs = [*self._fleets.values(), *self._others.values()]
        codes = {program.name: program.wait_end() for program in programs}
        if self._history.is_recording:
            codes["recorder"], self._recorded = self._history.end()
        codes["node"] = self._node.end()
        wrong = {name: code for name, code in codes.items() if code != 0}
        self._check("everybody ends orderly", not wrong, _ends_text(wrong, len(codes)))

    def _check_recording(self) -> None:
        if not self._history.is_recording:
            return
        done = self._recorded
        self._tell(f"{done['updates']} updates, {done['rows']} rows, {done['bytes']} bytes")
        told = self._history.verify()
        self._check(
            "all is recorded, and only what was lost with the node is missing",
            told["is_sound"] and 1 <= done["gaps"] <= done["disconnects"] and not done["lost_rows"],
            f"{done['gaps']} gaps, {told['row_count']} rows are sound",
        )

    def _ask_tables(self) -> None:
        why = missing_extra("spark") or ("" if self._has_tables else "nobody asked for them")
        if self._is_stopped():
            why = "the tour was told to end"
        if why or not self._history.is_recording or self._settled is None:
            self._tell(f"there are no tables: {why or 'there is no recording'}")
            return
        instant_ns, places = self._settled
        try:
            self._tell(f"{self._history.build()['rows']} rows are in the tables")
            for line in self._history.report()[:1]:
                self._tell(", ".join(f"{name} {line.get(name)}" for name in _FIGURES))
            state = self._history.state_at("Vessel", instant_ns)
        except (StartFailed, StopTimedOut) as error:
            self._check("the tables know where all vessels were at the end", False, str(error))
            return
        found = {row["mmsi"]: (row["lat"], row["lon"]) for row in state}
        self._check(
            "the tables know where all vessels were at the end",
            found == places,
            f"{len(found)} vessels as they were at {instant_ns}",
        )
        self._tell(f"the report is {self._history.page}")

    # -- what they need

    def _start_fleet(self, name: str) -> DemoProgram:
        words = ("fleet", "--node", self._endpoint, "--name", name, "--count", str(self._count))
        chance = ("--first", str(_FIRST[name]), "--seed", str(self._seed + _FIRST[name]))
        return self._stage.start(name, *_PROGRAMS, *words, *chance)

    def _start_other(self, program: str, name: str) -> DemoProgram:
        words = (*_PROGRAMS, program, "--node", self._endpoint, "--name", name)
        return self._stage.start(name if program == "pilot" else program, *words)

    def _count_event(self, event: Any) -> None:
        self._events[event.operation] += 1

    def _note_confirmed(self, fleet: DemoProgram) -> None:
        for line in fleet.said("confirmed"):
            self._confirmed.update(line["voyages"])

    def _ledger(self, space: Space, program: DemoProgram) -> Any:
        """What became of the updates that were due to a program."""
        number = program.said("ready")[-1]["client_id"]
        with NodeWatch(space) as watch:
            watch.wait_ledger(_LEDGER_S_MAX)
            clients = watch.snapshot(time()).clients
        return next((client.ledger for client in clients if client.id == number), None)

    def _check_ledger(self, space: Space) -> None:
        with NodeWatch(space) as watch:
            has_ledger = watch.wait_ledger(_LEDGER_S_MAX)
            snapshot = watch.snapshot(time())
        due = sum(line.ledger.due for line in snapshot.types)
        self._check(
            "the ledger explains what became of every update",
            has_ledger and snapshot.unexplained == 0,
            f"{due} due, {snapshot.unexplained} unexplained",
        )

    def _check(self, promise: str, holds: bool, facts: str) -> None:
        """The last word on a promise counts, unless it was broken before."""
        before = next((check for check in self.checks if check.promise == promise), None)
        if before is not None:
            self.checks.remove(before)
            if not before.holds:
                holds, facts = False, before.facts
        self.checks.append(Check(promise=promise, holds=holds, facts=facts))

    def _wait(self, condition: Callable[[], bool], what: str = "") -> bool:
        """Whether it comes to be so; StartFailed where the tour cannot go on without."""
        end_s = monotonic() + _WAIT_S_MAX
        while not condition():
            if monotonic() > end_s:
                if what:
                    raise StartFailed(f"it did not come to be that {what}")
                return False
            sleep(_LOOK_S)
        return True

    def _sail_until(self, share: float) -> None:
        """Let them sail until so much of the tour's time is over."""
        self._pause(self._started_s + self._seconds * share - monotonic())

    def _pause(self, seconds: float) -> None:
        end_s = monotonic() + seconds
        while not self._is_stopped() and monotonic() < end_s:
            sleep(_LOOK_S)


def _endpoint(stage: DemoStage) -> str:
    path = stage.path / "node.sock"
    if len(str(path)) <= _SOCKET_CHARS_MAX:
        return f"uds:{path}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def _is_of(fleet: str, mmsi: int) -> bool:
    return bool(mmsi // 1_000_000 == _FIRST[fleet] // 1_000_000)


def _is_connected(line: dict[str, Any]) -> bool:
    return bool(line["state"] == "connected")


def _places(*told: dict[str, Any]) -> dict[int, tuple[float, float]]:
    """Places as they were told in JSON, where keys are texts and pairs are lists."""
    return {int(mmsi): (lat, lon) for part in told for mmsi, (lat, lon) in part.items()}


def _ends_text(wrong: dict[str, int], count: int) -> str:
    if not wrong:
        return f"{count} processes"
    return ", ".join(f"{name} with {code}" for name, code in wrong.items())
