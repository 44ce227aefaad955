"""Recording, tables and report of the demo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.apps.demo import history as demo_history
from skerry.apps.demo.history import RECORDER_NAME, DemoHistory, missing_extra
from skerry.apps.demo.processes import DemoProcesses
from skerry.apps.demo.tour import Tour
from skerry.errors import RecordingError, StartFailed

PIPELINE = """
import json, sys
if "run" in sys.argv:
    print(json.dumps({"rows": 5}))
elif "report" in sys.argv:
    print(json.dumps({"updates": 5, "objects": 2}))
else:
    print(json.dumps({"mmsi": 1, "lat": 1.0, "lon": 2.0}))
"""


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_extra("recording") == ""
    monkeypatch.setattr(demo_history, "find_spec", lambda name: None if name == "pyspark" else 1)
    assert missing_extra("spark") == "pyspark not installed; install skerry[spark]"


def test_without_the_extra_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch, live_node: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo_history, "find_spec", lambda _name: None)
    messages: list[str] = []
    with DemoProcesses() as processes:
        history = DemoHistory(processes, tmp_path / "past", report=messages.append)
        history.start(live_node.place)
        assert not history.is_recording
    assert messages == ["no recording: pyarrow not installed; install skerry[recording]"]


def test_the_files_of_an_earlier_tour_are_replaced_and_no_others(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with DemoProcesses() as processes:
        history = DemoHistory(processes, folder, report=lambda _text: None)
        history._remove_former()
        history.tables.mkdir()
        history.page.write_text("figures")
        history._remove_former()
        assert [path.name for path in folder.iterdir()] == ["made-by-skerry-demo"]

        (tmp_path / "other" / "recording").mkdir(parents=True)
        other = DemoHistory(processes, tmp_path / "other", report=lambda _text: None)
        with pytest.raises(RecordingError, match="is not of a tour; nothing was removed"):
            other._remove_former()
        assert (tmp_path / "other" / "recording").exists()


@pytest.mark.slow
def test_a_recorder_records_everything_and_prints_a_summary(live_node: Any, tmp_path: Path) -> None:
    messages: list[str] = []
    with DemoProcesses() as processes:
        history = DemoHistory(processes, tmp_path / "past", report=messages.append)
        history.start(live_node.place)
        with skerry.connect(live_node.place) as space:
            tour = played(processes, history)
            assert tour._wait(lambda: history.is_subscribed(space))
            space.publish("/a", b"x")
            space.flush()
        code, summary = history.end()
        assert code == 0
        assert summary["updates"] > 0
        assert history.verify()["is_sound"]
        with pytest.raises(StartFailed, match="failed with 1"):
            history._run("state at", "record", "info", "nowhere")
    assert RECORDER_NAME == "skerry-record"


def played(
    processes: DemoProcesses, history: DemoHistory, is_stopped: Callable[[], bool] = lambda: False
) -> Tour:
    tour = Tour(
        processes,
        report=lambda _text: None,
        is_stopped=is_stopped,
        seconds=1.0,
        vessel_count=1,
        seed=1,
    )
    tour._history = history
    return tour


class Answering(DemoHistory):
    """A history whose questions are answered by a program that makes it up."""

    is_recording = True

    def _ask(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        program = self._processes.start(name, "-c", PIPELINE, *arguments)
        program.finish(30.0)
        return program.lines()


@pytest.mark.slow
def test_tables_are_compared_with_the_final_positions(tmp_path: Path) -> None:
    with DemoProcesses() as processes:
        tour = played(processes, Answering(processes, tmp_path, report=lambda _text: None))
        tour._final_state = 7, {1: (1.0, 2.0)}
        tour._query_tables()
        tour._final_state = 7, {1: (1.5, 2.0)}
        tour._query_tables()
    # A guarantee that was broken once stays broken.
    (check,) = tour.checks
    assert check.promise == "the tables have the final positions of all vessels"
    assert not check.holds


def test_tables_that_cannot_be_made_break_the_guarantee(tmp_path: Path) -> None:
    class Failing(Answering):
        def build(self) -> dict[str, Any]:
            raise StartFailed("no Java")

    with DemoProcesses() as processes:
        tour = played(processes, Failing(processes, tmp_path, report=lambda _text: None))
        tour._final_state = 7, {}
        tour._query_tables()
    assert [(check.holds, check.facts) for check in tour.checks] == [(False, "no Java")]


def test_a_stopped_tour_makes_no_tables(tmp_path: Path) -> None:
    with DemoProcesses() as processes:
        history = Answering(processes, tmp_path, report=lambda _text: None)
        tour = played(processes, history, is_stopped=lambda: True)
        tour._final_state = 7, {}
        tour._query_tables()
    assert tour.checks == []
