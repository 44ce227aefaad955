"""Simulated seeds by the thousand, on all cores, and with an end to those that have none.

A machine that turns in circles within one input never comes back to the simulator, which counts its
events in vain; compiled, it does not even heed a signal. So each seed is run by a process of its
own, which is ended when it takes too long.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from skerry.testing import run_scenario

SEED_S_MAX = 300.0
"""Time limit of a seed; the longest take a few seconds."""
VIOLATION_COUNT_MAX = 20
"""Failures reported in full; a protocol that is broken fails with every other seed."""

Task = tuple[str, int] | tuple[str, int, int]
"""A scenario and a seed, and how many nodes if not as many as usual."""
Found = tuple[int, int, str | None]
"""Faults, inputs, and what was violated."""

_FORK = multiprocessing.get_context("fork")


def first_seed() -> int:
    """Other seeds in each soak, and known from the report of the one that failed."""
    return time.time_ns() // 1_000_000_000 * 1_000_000


def run_seeds(
    name: str, tasks: Iterator[Task], is_over: Callable[[int], bool], s_max: float = SEED_S_MAX
) -> dict[str, Any]:
    """Run one after another until `is_over(how many were begun)`, each for `s_max` at the most."""
    counts = {"seeds": 0, "faults": 0, "inputs": 0}
    violations: list[str] = []
    running: list[_Run] = []
    begun = 0
    try:
        while True:
            while len(running) < len(os.sched_getaffinity(0)) and not is_over(begun):
                if len(violations) >= VIOLATION_COUNT_MAX:
                    break
                running.append(_Run(next(tasks), s_max))
                begun += 1
            if not running:
                break
            wait([run.link for run in running], timeout=1.0)
            for run in list(running):
                if run.is_over():
                    running.remove(run)
                    faults, inputs, violation = run.end()
                    counts["seeds"] += 1
                    counts["faults"] += faults
                    counts["inputs"] += inputs
                    if violation is not None:
                        violations.append(violation)
    finally:
        for run in running:
            run.end()
    return {"name": name, **counts, "violations": violations}


class _Run:
    """A seed, and the process that runs it."""

    def __init__(self, task: Task, s_max: float) -> None:
        self.link, link = _FORK.Pipe(duplex=False)
        self._task = task
        self._s_max = s_max
        self._stop_s = time.monotonic() + s_max
        self._process = _FORK.Process(target=_run, args=(link, task))
        self._process.start()
        link.close()

    def is_over(self) -> bool:
        return self.link.poll() or time.monotonic() >= self._stop_s

    def end(self) -> Found:
        """Return the result, after the process has ended."""
        scenario, seed, *nodes = self._task
        command = f"skerry sim run --scenario {scenario} --seed {seed}"
        command += "".join(f" --nodes {count}" for count in nodes)
        try:
            if self.link.poll():
                found: Found = self.link.recv()
            else:
                found = 0, 0, f"not over in {self._s_max:g} s: {command}"
        except EOFError:
            found = 0, 0, f"broke off: {command}"
        self._process.kill()
        self._process.join()
        self.link.close()
        return found


def _run(link: Connection, task: Task) -> None:
    scenario, seed, *nodes = task
    outcome = run_scenario(scenario, seed, node_count=nodes[0] if nodes else None)
    violation = f"{outcome.error}; {outcome.error.hint}" if outcome.error is not None else None
    link.send((outcome.fault_count, outcome.input_count, violation))
