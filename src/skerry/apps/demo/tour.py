"""The guided tour: a node and programs that share objects through it, and failures of both.

Processes, sockets, storage and kill -9 are real. The programs report what they published, and at
the end the tour compares that with what the other programs received.
"""

from __future__ import annotations

import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any, Final

from skerry.apps.demo.fleet import Alarm, BearingRequest, Vessel, Voyage, close_pairs
from skerry.apps.demo.history import DemoHistory, missing_extra
from skerry.apps.demo.processes import DemoProcess, DemoProcesses
from skerry.apps.demo.system import DemoSystem, connect_when_ready
from skerry.apps.top import NodeWatch
from skerry.client.api.sync import Space
from skerry.errors import Refused, RequestError, StartFailed, StopTimedOut
from skerry.formatting import bytes_text, count, counted, moment
from skerry.runtime.clock import wall_ns

_WAIT_S_MAX: Final = 60.0
"""Time limit for conditions of the tour: a program needs seconds to start on a busy computer."""
_LEDGER_S_MAX: Final = 5.0
"""Time to wait for the ledger, which a node publishes each second."""
_POLL_S: Final = 0.02
_STOPPED_S: Final = 3.0
"""Time for which the slow display is stopped: long enough to fill all buffers."""
_FIGURES: Final = ("updates", "objects", "types", "nodes", "clients", "lost")
"""Figures of the report that are printed."""
_SOCKET_CHARS_MAX: Final = 100
"""Longest path of a Unix socket that the tour uses; the system's limit is about 108 bytes."""
_TABLES: Final = "the tables have the final positions of all vessels"
_PROGRAMS: Final = ("-m", "skerry.apps.demo.programs")
_FIRST: Final = {"north": 265_000_000, "south": 266_000_000}
STEP_COUNT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A guarantee of skerry, and whether it was kept."""

    promise: str
    holds: bool
    facts: str


@dataclass(frozen=True, slots=True)
class TourStep:
    title: str
    why: str


class Tour:
    """Runs the steps. `report` receives messages; `is_stopped` ends pauses."""

    def __init__(
        self,
        processes: DemoProcesses,
        *,
        report: Callable[[str], None],
        is_stopped: Callable[[], bool],
        seconds: float,
        vessel_count: int,
        seed: int,
        folder: Path | None = None,
        has_tables: bool = True,
    ) -> None:
        """Recording, tables and report are written to `folder`, or to the temporary folder."""
        self._processes = processes
        self._report = report
        self._is_stopped = is_stopped
        self._seconds = seconds
        self._count = vessel_count
        self._seed = seed
        self._started_s = monotonic()
        self._endpoint = _endpoint(processes)
        self._node: DemoProcess | None = None
        self._fleets: dict[str, DemoProcess] = {}
        self._others: dict[str, DemoProcess] = {}
        self._events: Counter[str] = Counter()
        self._states: list[str] = []
        self._confirmed: set[int] = set()
        self._history = DemoHistory(processes, folder or processes.path / "past", report=report)
        self._system = DemoSystem(processes, report=report)
        self._has_tables = has_tables
        self._final_state: tuple[int, dict[int, tuple[float, float]]] | None = None
        """A time, and the positions of all vessels at that time."""
        self._recorded: dict[str, Any] = {}
        self._ended_count = 0
        self.checks: list[Check] = []

    def steps(self) -> Iterator[TourStep]:
        """Yield each step before it runs; it runs when the next one is requested."""
        yield TourStep(
            "a node", "receives updates, keeps the current objects, and notifies subscribers"
        )
        self._node = self._start_node()
        with connect_when_ready(self._endpoint, [Vessel, Voyage, Alarm]) as space:
            self._history.start(self._endpoint)
            self._wait(lambda: self._history.is_subscribed(space), "the recorder to subscribe")
            space.on_state(lambda change: self._states.append(str(change.state)))
            space.subscribe(Vessel, self._count_event)
            yield TourStep(
                "programs",
                "two fleets publish vessels, a collision alarm watches them; all are processes",
            )
            self._open(space)
            yield TourStep(
                "a slow subscriber",
                "it receives only the last state of each object, and delays no other program",
            )
            self._stop_display(space)
            yield TourStep(
                "kill -9 of a program",
                "its objects are removed, and published again when it is restarted",
            )
            self._kill_program(space)
            yield TourStep(
                "requests and ownership",
                "one pilot answers, another is the standby; a fleet owns its vessels",
            )
            self._send_requests(space)
            yield TourStep(
                "kill -9 of the node",
                "confirmed objects are on disk, and programs reconnect automatically",
            )
            self._kill_node(space)
            yield TourStep("comparison", "all programs report what they know")
            self._system.start()
            self._compare(space)
        self._end_all()
        yield TourStep(
            "three nodes, one system",
            "they find each other, have one picture, and agree on who is dead; objects stay at"
            " their node",
        )
        self._play_system()
        yield TourStep("the recording", "all updates of the space are stored")
        self._check_recording()
        yield TourStep("the tables", "Spark makes tables, which give the state at any time")
        self._query_tables()

    def results(self) -> dict[str, Path]:
        """The files and folders that the tour has made, by what they are."""
        found = {
            "report": self._history.page,
            "tables": self._history.tables,
            "recording": self._history.recording,
        }
        return {name: path for name, path in found.items() if path.exists()}

    # -- the steps

    def _start_node(self) -> DemoProcess:
        config = self._processes.path / "skerry.toml"
        storage = self._processes.path / "objects.db"
        config.write_text(
            f'[node]\nname = "demo"\nlisten = ["{self._endpoint}"]\nmetrics = "off"\n'
            f'[node.storage]\nurl = "sqlite:{storage}"\n',
            encoding="utf-8",
        )
        node = self._processes.start("node", "-m", "skerry", "node", "run", "--config", str(config))
        self._report(f"node: process {node.number} at {self._endpoint}")
        return node

    def _open(self, space: Space) -> None:
        for name in _FIRST:
            self._fleets[name] = self._start_fleet(name)
        for program, name in (("alarm", "alarm"), ("display", "north")):
            self._others[program] = self._start_other(program, name)
        for started in (*self._fleets.values(), *self._others.values()):
            started.wait_event("ready")
            self._report(f"{started.name}: process {started.number} is ready")
        vessels = space.container(Vessel)
        self._wait(lambda: len(vessels) >= 2 * self._count, "all vessels")
        self._report(f"{len(vessels)} vessels")
        self._sail_until(0.2)
        alarms = len(space.container(Alarm))
        updates = counted(self._events.total(), "update")
        self._report(f"{updates} received so far; {counted(alarms, 'alarm')}")

    def _stop_display(self, space: Space) -> None:
        display = self._others["display"]
        before = self._events.total()
        display.signal(signal.SIGSTOP)
        self._report(
            f"display: stopped for {_STOPPED_S:.0f} s, while 5 MB/s of radar pictures are due to it"
        )
        try:
            self._pause(_STOPPED_S)
        finally:
            display.signal(signal.SIGCONT)
        received = self._events.total() - before
        ledger = self._ledger(space, display)
        conflated = ledger.conflated if ledger is not None else 0
        self._report(
            f"meanwhile others received {counted(received, 'update')};"
            f" {counted(conflated, 'picture')} conflated for the display"
        )
        self._check(
            "a slow subscriber delays no other program",
            received >= 2 * self._count,
            f"{counted(received, 'update')} received by others meanwhile",
        )
        self._check_ledger(space)
        self._sail_until(0.4)

    def _kill_program(self, space: Space) -> None:
        vessels = space.container(Vessel)
        south = self._fleets["south"]
        south.kill()
        self._note_confirmed(south)
        self._report(f"south: process {south.number} killed")
        is_removed = self._wait(lambda: all(not _is_of("south", mmsi) for mmsi in vessels))
        self._report(f"its vessels are removed; {counted(len(vessels), 'vessel')} left")
        self._fleets["south"] = self._start_fleet("south")
        self._fleets["south"].wait_event("ready")
        is_back = self._wait(lambda: sum(_is_of("south", mmsi) for mmsi in vessels) >= self._count)
        self._report(f"south: process {self._fleets['south'].number}; {len(vessels)} vessels again")
        self._check(
            "the objects of a killed program are removed, and return with it",
            is_removed and is_back,
            counted(self._count, "vessel"),
        )
        self._sail_until(0.6)

    def _send_requests(self, space: Space) -> None:
        pilots = []
        for name in ("Ada", "Bo"):
            # One after the other: the first one gets the claim.
            pilots.append(self._start_other("pilot", name))
            pilots[-1].wait_event("ready")
            self._report(f"{name}: process {pilots[-1].number} is ready")
        first = self._ask(space)
        pilots[0].kill()
        self._report(f"{pilots[0].name}: process {pilots[0].number} killed")
        second = self._ask(space)
        self._others["pilot"] = pilots[1]
        self._check(
            "requests are answered even if their handler is killed",
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
        self._report(f"a change of a vessel by another program is refused: {answer}")
        names = {found.name for found in space.container(Vessel).values()}
        self._check(
            "only the owner can change its objects",
            "owned" in answer and vessel.name not in names,
            f"vessel {vessel.mmsi} is unchanged",
        )

    def _ask(self, space: Space) -> str | None:
        """The pilot that answers a request; the first attempt may fail with a killed handler."""
        request = BearingRequest(lat=57.7, lon=11.8, to_lat=57.6, to_lon=11.3)
        for attempt in range(2):
            try:
                answer = space.request(request, to="pilot", timeout=_WAIT_S_MAX)
            except RequestError as error:
                self._report(f"request {attempt + 1}: {error}")
            else:
                self._report(
                    f"{answer.pilot}: course {answer.course:.0f}, {answer.miles:.1f} miles"
                )
                return str(answer.pilot)
        return None

    def _kill_node(self, space: Space) -> None:
        assert self._node is not None
        for fleet in self._fleets.values():
            fleet.wait_event("confirmed")
        voyages = space.container(Voyage)
        self._check_ledger(space)
        programs = [*self._fleets.values(), *self._others.values()]
        state_counts = {program.name: len(program.events("state")) for program in programs}
        for fleet in self._fleets.values():
            self._note_confirmed(fleet)
        self._node.kill()
        self._report(f"node: process {self._node.number} killed")
        is_lost = self._wait(lambda: self._states[-1:] == ["disconnected"])
        self._report(f"{counted(len(self._confirmed), 'voyage')} confirmed before")
        self._node = self._start_node()
        is_back = self._wait(lambda: self._states[-1:] == ["connected"])
        for program in programs:
            program.wait_event(
                "state",
                lambda line: bool(line["state"] == "connected"),
                after=state_counts[program.name],
            )
        self._report(f"all {len(programs)} programs have reconnected")
        self._wait(lambda: self._history.is_subscribed(space), "the recorder to subscribe again")
        is_stored = self._wait(lambda: self._confirmed <= set(voyages))
        self._check(
            "confirmed objects survive kill -9 of the node",
            is_stored and bool(self._confirmed),
            f"{len(self._confirmed & set(voyages))} of {len(self._confirmed)} voyages",
        )
        self._check(
            "programs reconnect automatically",
            is_lost and is_back,
            f"{len(programs)} programs, and the tour",
        )
        self._sail_until(0.95)

    def _compare(self, space: Space) -> None:
        while self._seconds == 0 and not self._is_stopped():
            sleep(_POLL_S)
        frozen = {}
        for name, fleet in self._fleets.items():
            fleet.send_order("freeze")
            frozen[name] = fleet.wait_event("frozen")
        places = _places(*(line["places"] for line in frozen.values()))
        reports = {}
        for name in ("alarm", "display"):
            self._others[name].send_order("report")
            reports[name] = self._others[name].wait_event("report")
        space.flush()
        self._final_state = wall_ns(), places
        seen = {key: (v.lat, v.lon) for key, v in space.container(Vessel).items()}
        self._check(
            "the node and the collision alarm have the actual positions of all vessels",
            seen == places == _places(reports["alarm"]["places"]),
            f"{counted(len(places), 'vessel')}, "
            f"{counted(reports['alarm']['event_count'], 'event')}",
        )
        expected, alarms = set(close_pairs(places)), set(space.container(Alarm))
        self._check(
            "no alarm is missing, and none is false",
            alarms == expected,
            f"{counted(len(alarms), 'pair')} too close now, "
            f"{reports['alarm']['raised_count']} in total",
        )
        number, shown = frozen["north"]["number"], reports["display"]["seen_count"]
        self._check(
            "a slow subscriber has the newest state",
            reports["display"]["number"] == number,
            f"picture {reports['display']['number']} of {number}; {shown} shown",
        )
        self._check_ledger(space)

    def _end_all(self) -> None:
        assert self._node is not None
        programs = [*self._fleets.values(), *self._others.values()]
        codes = {program.name: program.wait_end() for program in programs}
        if self._history.is_recording:
            codes["recorder"], self._recorded = self._history.end()
        codes["node"] = self._node.end()
        self._check_ends(codes)

    def _check_ends(self, codes: Mapping[str, int]) -> None:
        self._ended_count += len(codes)
        wrong = {name: code for name, code in codes.items() if code != 0}
        ends = ", ".join(f"{name} with exit code {code}" for name, code in wrong.items())
        self._check(
            "all programs end in order",
            not wrong,
            ends or counted(self._ended_count, "process", "processes"),
        )

    def _play_system(self) -> None:
        if self._is_stopped():
            self._report("no system: the tour was stopped")
        else:
            self._system.play(self._check)
        self._check_ends(self._system.end())

    def _check_recording(self) -> None:
        if not self._history.is_recording:
            return
        done = self._recorded
        counts = counted(done["updates"], "update"), counted(done["rows"], "row")
        self._report(", ".join([*counts, bytes_text(done["bytes"])]))
        verified = self._history.verify()
        self._check(
            "only updates that were lost with the node are missing in the recording",
            verified["is_sound"]
            and 1 <= done["gaps"] <= done["disconnects"]
            and not done["lost_rows"],
            f"{counted(done['gaps'], 'gap')}, {count(verified['row_count'])} rows are sound",
        )

    def _query_tables(self) -> None:
        why = missing_extra("spark") or ("" if self._has_tables else "--no-spark")
        if self._is_stopped():
            why = "the tour was stopped"
        if why or not self._history.is_recording or self._final_state is None:
            self._report(f"no tables: {why or 'no recording'}")
            return
        instant_ns, places = self._final_state
        try:
            self._report(f"{counted(self._history.build()['rows'], 'row')} in the tables")
            for line in self._history.report()[:1]:
                self._report(", ".join(f"{count(line[name])} {name}" for name in _FIGURES))
            state = self._history.state_at("Vessel", instant_ns)
        except (StartFailed, StopTimedOut) as error:
            self._check(_TABLES, False, str(error))
            return
        found = {row["mmsi"]: (row["lat"], row["lon"]) for row in state}
        when = moment(datetime.fromtimestamp(instant_ns / 1e9, UTC))
        self._check(_TABLES, found == places, f"{counted(len(found), 'vessel')} at {when} UTC")

    # -- shared by the steps

    def _start_fleet(self, name: str) -> DemoProcess:
        arguments = ("fleet", "--node", self._endpoint, "--name", name, "--count", str(self._count))
        numbers = ("--first", str(_FIRST[name]), "--seed", str(self._seed + _FIRST[name]))
        return self._processes.start(name, *_PROGRAMS, *arguments, *numbers)

    def _start_other(self, program: str, name: str) -> DemoProcess:
        arguments = (*_PROGRAMS, program, "--node", self._endpoint, "--name", name)
        return self._processes.start(name if program == "pilot" else program, *arguments)

    def _count_event(self, event: Any) -> None:
        self._events[event.operation] += 1

    def _note_confirmed(self, fleet: DemoProcess) -> None:
        for line in fleet.events("confirmed"):
            self._confirmed.update(line["voyages"])

    def _ledger(self, space: Space, program: DemoProcess) -> Any:
        number = program.events("ready")[-1]["client_id"]
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
            "the ledger accounts for every update",
            has_ledger and snapshot.unexplained == 0,
            f"{counted(due, 'delivery', 'deliveries')} due, {snapshot.unexplained} unexplained",
        )

    def _check(self, promise: str, holds: bool, facts: str) -> None:
        """Store the result of a check. A guarantee that was broken once stays broken."""
        before = next((check for check in self.checks if check.promise == promise), None)
        if before is not None:
            self.checks.remove(before)
            if not before.holds:
                holds, facts = False, before.facts
        self.checks.append(Check(promise=promise, holds=holds, facts=facts))

    def _wait(self, condition: Callable[[], bool], what: str = "") -> bool:
        """Wait for a condition; after a timeout False, or StartFailed if `what` is given."""
        end_s = monotonic() + _WAIT_S_MAX
        while not condition():
            if monotonic() > end_s:
                if what:
                    raise StartFailed(f"timed out after {_WAIT_S_MAX:g} s waiting for {what}")
                return False
            sleep(_POLL_S)
        return True

    def _sail_until(self, share: float) -> None:
        """Wait until this share of the tour's time has passed."""
        self._pause(self._started_s + self._seconds * share - monotonic())

    def _pause(self, seconds: float) -> None:
        end_s = monotonic() + seconds
        while not self._is_stopped() and monotonic() < end_s:
            sleep(_POLL_S)


def _endpoint(processes: DemoProcesses) -> str:
    path = processes.path / "node.sock"
    if len(str(path)) <= _SOCKET_CHARS_MAX:
        return f"uds:{path}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def _is_of(fleet: str, mmsi: int) -> bool:
    return bool(mmsi // 1_000_000 == _FIRST[fleet] // 1_000_000)


def _places(*parts: dict[str, Any]) -> dict[int, tuple[float, float]]:
    """Positions from JSON, where keys are texts and pairs are lists."""
    return {int(mmsi): (lat, lon) for part in parts for mmsi, (lat, lon) in part.items()}
