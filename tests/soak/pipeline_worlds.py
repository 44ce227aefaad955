"""Random worlds of real programs: tables equal what the logs of the publishers say.

Each world has one or two nodes with a recorder each, and three to six programs that create, change,
clear, remove and create again. Nodes and recorders are killed, a clock is set back, a type gets a
newer definition. The programs act in rounds, and between two rounds nothing is under way: the
instant there is one to ask for. What is asked of both engines, the logs answer without any code of
the pipeline.

A kill takes what was on its way to the recording. Rounds around it remove nothing, since a remove
that is not recorded cannot be known, and are not asked for; what follows it is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import skerry  # noqa: E402
import skerry.lake  # noqa: E402
from skerry.spark.jobs.loop import run_all  # noqa: E402
from skerry.spark.lake.lake import Lake  # noqa: E402
from skerry.spark.startup.session import session  # noqa: E402
from skerry.spark.tables import Tables  # noqa: E402
from tests.spark.dying import FAST  # noqa: E402
from tests.spark.lakes import BARE, KEPT  # noqa: E402

MINUTES = 60.0
WORLDS = 50
INSTANTS = 200
VIOLATION_COUNT_MAX = 20
TOGETHER = 25
"""Questions in one job of Spark."""
PAUSE_S = 0.003
"""Between the end of a round, the instant that is asked for, and the next round."""
RECORDED_S = 0.6
"""By then what a node took is in the recording: a batch is written after 0.2 s."""
FOUND_S = 5.0
"""By then a recorder has found its node again."""
STEP_NS = 1_900_000_000
"""By which a clock is set back."""
NOTICED_S = 1.5
"""By then a node has noticed it, and is still behind what it had shown."""
COLUMNS = ("name", "speed", "level", "marks", "spot", "remark")


def run(minutes: float) -> dict[str, Any]:
    """Up to fifty worlds, as long as there is time."""
    stop_s = time.monotonic() + minutes * 60
    first_seed = time.time_ns() % 1_000_000_000
    spark = session("local[2]", app_name="soak", memory="1g", conf=FAST)
    violations: list[str] = []
    worlds = faults = asked = 0
    try:
        while worlds < WORLDS and time.monotonic() < stop_s:
            seed = first_seed + worlds
            with tempfile.TemporaryDirectory() as folder:
                found, fault_count, count = try_world(spark, Path(folder), seed)
            violations += found
            worlds, faults, asked = worlds + 1, faults + fault_count, asked + count
            if len(violations) >= VIOLATION_COUNT_MAX:
                break
    finally:
        spark.stop()
    return {
        "name": "pipeline_worlds",
        "seeds": worlds,
        "faults": faults,
        "inputs": asked,
        "violations": violations,
    }


def try_world(spark: Any, folder: Path, seed: int) -> tuple[list[str], int, int]:
    """Return the differences of tables and logs, and the numbers of faults and of instants."""
    rng = Random(seed)
    world = World(folder, rng)
    config = rng.choice([BARE, KEPT])
    lake = Lake(spark, folder / "lake", config)
    try:
        world.start()
        for number in range(INSTANTS + 40):
            world.round(number)
            if number == INSTANTS // 2 and rng.random() < 0.5:
                # Some of it comes late, in further batches.
                run_all(lake, folder / "recordings")
        # Kills and clocks that were set back leave fewer rounds to ask for.
        for number in range(INSTANTS + 40, 4 * INSTANTS):
            if len(world.askable()) >= INSTANTS:
                break
            world.round(number)
    finally:
        world.end()
    run_all(lake, folder / "recordings")
    instants = world.instants()
    found = [
        f"seed {seed}: {engine}: {fault}"
        for engine, answers in (
            ("lake", lake_answers(folder / "lake", instants)),
            ("spark", spark_answers(spark, folder / "lake", instants)),
        )
        for fault in differences(world, instants, answers)
    ]
    return found, world.fault_count, len(instants)


# -- the programs


@dataclass
class Site:
    """A node, its recorder and its programs."""

    number: int
    place: str
    types: list[str] = field(default_factory=list)
    node: Any = None
    recorder: Any = None
    programs: list[Any] = field(default_factory=list)
    behind_ns: int = 0
    ends_ns: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By round, when it began and when it was over, by the clock of the node."""
    doubtful: set[int] = field(default_factory=set)
    """Rounds of which it is not known what was recorded."""


class World:
    """Processes, and what is known of them."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self._folder = folder
        self._rng = rng
        self.fault_count = 0
        self.sites = [Site(n, f"uds:{folder}/{n}.sock") for n in range(rng.randint(1, 2))]
        for index in range(rng.randint(3, 6)):
            site = self.sites[index % len(self.sites)]
            site.types.append(f"Kind{index}")
        rounds = range(10, INSTANTS + 30)
        self._plans = {
            "node": set(rng.sample(rounds, rng.randint(0, 2))),
            "recorder": set(rng.sample(rounds, rng.randint(0, 2))),
            "clock": set(rng.sample(rounds, rng.randint(0, 2))),
            "newer": set(rng.sample(rounds, 1)),
        }
        # After lost updates, the snapshot of a recorder may be later than the next updates if the
        # clock is set back at that moment. No recorded row shows the time that the clock had.
        self._plans["clock"] -= self._plans["recorder"]

    def start(self) -> None:
        for site in self.sites:
            self._start_node(site)
            self._start_recorder(site)
            for name in site.types:
                seed = str(self._rng.randrange(2**32))
                first_id = str(1000 * (site.number + 1))
                log = str(self._log_of(name))
                words = [site.place, name, first_id, log, seed]
                process = self._process(str(HERE / "_world_program.py"), *words, talks=True)
                assert process.stdout.readline() == "ready\n"
                site.programs.append(process)

    def end(self) -> None:
        for site in self.sites:
            for program in site.programs:
                program.stdin.close()
                program.wait(timeout=30)
            for process in (site.recorder, site.node):
                if process is not None and process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    process.wait(timeout=60)

    def round(self, number: int) -> None:
        """All programs act; then, maybe, something happens to a node or a recorder."""
        for site in self.sites:
            self._round_of(site, number)

    def _round_of(self, site: Site, number: int) -> None:
        is_mine = number % len(self.sites) == site.number
        coming = {n for what in ("node", "recorder") for n in self._plans[what]}
        is_near = is_mine and number in coming
        if is_near:
            # What was said until now is recorded; what follows may be lost with the victim.
            time.sleep(RECORDED_S)
            site.doubtful.add(number)
        word = "kept" if is_near else "any"
        if is_mine and number in self._plans["newer"]:
            word = "newer"
        self._act(site, number, word)
        if is_mine and number in self._plans["node"]:
            self._kill_node(site, number)
        if is_mine and number in self._plans["recorder"]:
            self._kill_recorder(site)
        if is_mine and number in self._plans["clock"]:
            site.node.send_signal(signal.SIGUSR1)
            site.behind_ns += STEP_NS
            time.sleep(NOTICED_S)
            self.fault_count += 1

    def _act(self, site: Site, number: int, word: str) -> None:
        began_ns = time.time_ns() - site.behind_ns
        for program in site.programs:
            program.stdin.write(f"{number} {word}\n")
            program.stdin.flush()
        for program in site.programs:
            answer = program.stdout.readline()
            assert answer == f"{number}\n", f"a program ended in round {number}"
        time.sleep(PAUSE_S)
        site.ends_ns[number] = (began_ns, time.time_ns() - site.behind_ns)
        time.sleep(PAUSE_S)

    def _kill_node(self, site: Site, number: int) -> None:
        site.node.kill()
        site.node.wait()
        site.behind_ns = 0
        self._start_node(site)
        # Programs publish what they have; the recorder finds it in the cache, or receives it.
        self._act(site, number, "again")
        time.sleep(FOUND_S)
        site.ends_ns[number] = (site.ends_ns[number][0], time.time_ns())
        self.fault_count += 1

    def _kill_recorder(self, site: Site) -> None:
        site.recorder.kill()
        site.recorder.wait()
        self._start_recorder(site)
        self.fault_count += 1

    def _start_node(self, site: Site) -> None:
        metrics = ("--metrics", "off", "--log-level", "error")
        words = ("--listen", site.place, "--name", f"site{site.number}", *metrics)
        site.node = self._process(str(HERE / "_world_node.py"), *words)
        with skerry.connect(site.place, name="waiting", wait=True):
            pass

    def _start_recorder(self, site: Site) -> None:
        target = self._folder / "recordings" / str(site.number)
        words = ("-m", "skerry", "record", "--to", str(target), "--node", site.place)
        site.recorder = self._process(*words, says=True)
        for line in site.recorder.stderr:
            if "recording to" in line:
                return
        raise AssertionError("the recorder did not begin")

    def _process(self, *words: str, talks: bool = False, says: bool = False) -> Any:
        state = {"SKERRY_STATE_DIR": str(self._folder), "SKERRY_RUNTIME_DIR": str(self._folder)}
        pipe = subprocess.PIPE if talks else subprocess.DEVNULL
        return subprocess.Popen(
            [sys.executable, *words],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.PIPE if says else None,
            text=True,
            env={**os.environ, **state},
        )

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    # -- what can be asked, and what the answer has to be

    def instants(self) -> list[tuple[int, Site, int]]:
        """A random choice of the rounds that can be asked for, in the order of their instants."""
        return sorted(self._rng.sample(self.askable(), INSTANTS), key=lambda row: row[2])

    def askable(self) -> list[tuple[int, Site, int]]:
        """Rounds after which nothing was under way, each with its site and instant."""
        found = []
        for site in self.sites:
            for number, (_, end_ns) in site.ends_ns.items():
                # Until a clock that was set back has reached its former time, updates count as
                # of that time.
                later = [began for n, (began, _) in site.ends_ns.items() if n > number]
                before = [end for n, (_, end) in site.ends_ns.items() if n < number]
                is_plain = max(before, default=end_ns - 1) < end_ns < min(later, default=end_ns + 1)
                if is_plain and number not in site.doubtful:
                    found.append((number, site, end_ns))
        return found

    def expected(self, type_name: str, rounds: list[int]) -> dict[int, dict[int, dict[str, Any]]]:
        """The objects after each round, by the log of their publisher."""
        lines = self._log_of(type_name).read_text(encoding="utf-8").splitlines()
        said = [json.loads(line) for line in lines]
        objects: dict[int, dict[str, Any]] = {}
        after: dict[int, dict[int, dict[str, Any]]] = {}
        index = 0
        for number in sorted(rounds):
            while index < len(said) and said[index]["round"] <= number:
                _apply(objects, said[index])
                index += 1
            after[number] = {id_: dict(values) for id_, values in objects.items()}
        return after


def _apply(objects: dict[int, dict[str, Any]], said: dict[str, Any]) -> None:
    if said["do"] == "remove":
        del objects[said["id"]]
        return
    if said["do"] == "whole":
        objects[said["id"]] = {}
    values = objects.setdefault(said["id"], {})
    values.update(said["set"])
    for name in said["clear"]:
        values.pop(name, None)


# -- questions

Answers = dict[tuple[str, int], dict[int, dict[str, Any]]]
"""By type and instant, the objects by their number."""


def lake_answers(lake: Path, instants: list[tuple[int, Site, int]]) -> Answers:
    opened = skerry.lake.open(lake)
    known = set(opened.types())
    return {
        (name, at_ns): _objects(opened.asof(name, at_ns).to_pylist())
        for _, site, at_ns in instants
        for name in site.types
        if name in known
    }


def spark_answers(spark: Any, lake: Path, instants: list[tuple[int, Site, int]]) -> Answers:
    tables = Tables(spark, lake)
    answers: Answers = {}
    for name in [n for n in tables.types() if n.startswith("Kind") and "@" not in n]:
        asked = [at_ns for _, site, at_ns in instants if name in site.types]
        for some in (asked[n : n + TOGETHER] for n in range(0, len(asked), TOGETHER)):
            frames = [
                tables.asof(name, at_ns).selectExpr(f"{at_ns}L as at_ns", "*") for at_ns in some
            ]
            whole = frames[0]
            for frame in frames[1:]:
                whole = whole.union(frame)
            rows = whole.toArrow().to_pylist()
            for at_ns in some:
                own = [row for row in rows if row["at_ns"] == at_ns]
                answers[name, at_ns] = _objects(own)
    return answers


def _objects(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {
        row["id"]: {name: row[name] for name in COLUMNS if row.get(name) is not None}
        for row in rows
    }


def differences(world: World, instants: list[tuple[int, Site, int]], answers: Answers) -> list[str]:
    found = []
    for site in world.sites:
        rounds = [number for number, asked, _ in instants if asked is site]
        for name in site.types:
            expected = world.expected(name, rounds)
            for number, asked, at_ns in instants:
                if asked is not site:
                    continue
                found_state = answers.get((name, at_ns), {})
                if found_state != expected[number]:
                    found.append(_difference(name, number, at_ns, found_state, expected[number]))
    return found[:5]


def _difference(
    name: str, number: int, at_ns: int, found_state: dict[int, Any], wanted: dict[int, Any]
) -> str:
    ids = sorted(id_ for id_ in {*found_state, *wanted} if found_state.get(id_) != wanted.get(id_))
    first = ids[0]
    return (
        f"{name} after round {number} at {at_ns}: {len(ids)} objects differ, {first} is "
        f"{found_state.get(first)} and not {wanted.get(first)}"
    )
