"""The Spark of a command."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.pipeline.sparks import elsewhere, held_back, is_little, spoken_faults
from skerry.errors import PipelineError

Run = Callable[..., Any]


def test_missing_extra_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.spark.extras.NEEDED", ("pyspark_that_nobody_has",))
    done = run("pipeline", "asof", "--tables", "lake", "--at", "2026-11-15T14:00:00Z")
    assert done.code == 1
    assert "pyspark_that_nobody_has is not installed" in done.err
    assert "pip install 'skerry[spark]'" in done.err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--memory", "lots", "no amount of memory"), ("--conf", "spark.ui", "KEY=VALUE")],
)
def test_settings_are_checked_before_anything_starts(
    run: Run, option: str, value: str, words: str
) -> None:
    done = run("pipeline", "compact", "--tables", "lake", option, value)
    assert done.code == 2
    assert words in done.err


AT = ("--at", "2026-11-15T14:00Z")
SPAN = ("--from", "2026-11-15T14:00Z", "--to", "2026-11-15T15:00Z")
ASKING = {
    "asof": AT,
    "between": ("--type", "Vessel", *SPAN),
    "compact": (),
    "diff": ("--type", "Vessel", *SPAN),
    "report": (),
    "tables": (),
    "vacuum": (),
}


@pytest.mark.parametrize("command", ASKING)
def test_a_folder_that_is_not_there_is_said_and_not_made(
    run: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").touch()
    for name in ("lkae", "file"):
        place = tmp_path / name
        for text in (str(place), f"file://{place}"):
            done = run("pipeline", command, "--tables", text, *ASKING[command])
            assert (done.code, done.out) == (1, "")
            assert f"there is no folder {text}" in done.err
            assert "skerry pipeline run" in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("command", ["run", "follow"])
def test_tables_are_not_made_in_a_file(run: Run, tmp_path: Path, command: str) -> None:
    place = tmp_path / "file"
    place.touch()
    done = run("pipeline", command, "--recordings", tmp_path, "--tables", place)
    assert done.code == 1
    assert f"{place} is no folder" in done.err


def test_words_of_programs_go_to_a_file_and_ours_to_people(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with elsewhere() as (words, people):
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'noise')"], check=True)
        people.write("starting\n")
        people.flush()
        assert words.read_text(encoding="utf-8") == "noise"
    assert not words.exists()
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'after')"], check=True)
    assert capfd.readouterr().err == "starting\nafter"


def test_stderr_is_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), elsewhere():
        raise RuntimeError
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'after')"], check=True)
    assert capfd.readouterr().err == "after"


def test_faults_of_spark_say_the_one_thing_that_matters() -> None:
    from pyspark.errors import PySparkException

    trace = (
        "Job aborted\n  File worker.py, line 3\nskerry.errors.RecordingError: it is damaged\nmore"
    )
    with pytest.raises(PipelineError, match=r"^it is damaged$") as caught, spoken_faults():
        raise PySparkException(trace)
    assert "--debug" in (caught.value.hint or "")
    with pytest.raises(PipelineError, match=r"^no such column$"), spoken_faults():
        raise PySparkException("no such column\nat org.apache.spark")
    with pytest.raises(PipelineError, match="JVM of Spark is gone"), spoken_faults():
        raise ConnectionRefusedError


def test_little_is_few_rows_recorded_and_small_tables(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    assert is_little(str(lake), str(recordings))
    lake.mkdir()
    (lake / "a.parquet").write_bytes(b"12345")
    monkeypatch.setattr("skerry.spark.few.FEW_BYTES", 5)
    assert is_little(str(lake))
    monkeypatch.setattr("skerry.spark.few.FEW_BYTES", 4)
    assert not is_little(str(lake))
    assert not is_little("s3a://bucket/lake-that-is-not-asked")


def test_many_rows_recorded_are_not_little(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.spark.few.FEW_ROWS", 5)
    assert not is_little(str(tmp_path), str(recordings))


def test_an_interruption_waits_until_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    done = []
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_somebody_else_put_in_place_stays() -> None:
    before = signal.getsignal(signal.SIGINT)

    def own(_number: int, _frame: object) -> None:
        """Of Spark."""

    try:
        with held_back():
            signal.signal(signal.SIGINT, own)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_only_the_main_thread_has_signals_to_hold_back() -> None:
    done = []

    def work() -> None:
        with held_back():
            done.append("all of it")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["all of it"]
