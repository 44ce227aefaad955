"""The Spark of a command."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from skerry.cli.pipeline.spark_session import (
    _not_started,
    deferred_interrupt,
    is_small,
    redirected_stderr,
    spark_errors,
    vacuum_option,
)
from skerry.errors import PipelineError
from skerry.spark.lake.lake import KEEP_HOURS

Run = Callable[..., Any]


def test_a_missing_extra_is_named_with_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.spark.startup.extras.FOR_SPARK", ("pyspark_that_nobody_has",))
    at = ("--at", "2026-11-15T14:00:00Z")
    for words in (("compact",), ("asof", *at, "--engine", "spark")):
        done = run("pipeline", *words, "--tables", "lake")
        assert done.code == 1
        assert "pyspark_that_nobody_has is not installed" in done.err
        assert "pip install 'skerry[spark]'" in done.err
    # Queries need less.
    done = run("pipeline", "asof", "--tables", "lake", *at)
    assert "there is no folder lake" in done.err
    monkeypatch.setattr("skerry.spark.startup.extras.FOR_LAKE", ("arrow_that_nobody_has",))
    done = run("pipeline", "asof", "--tables", "lake", *at)
    assert (done.code, "pip install 'skerry[lake]'" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--memory", "lots", "not a memory size"), ("--conf", "spark.ui", "KEY=VALUE")],
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
def test_a_missing_folder_is_an_error_and_is_not_created(
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
    assert f"{place} is not a folder" in done.err


def test_stderr_of_processes_goes_to_a_file(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with redirected_stderr() as (words, people):
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'noise')"], check=True)
        people.write("starting\n")
        people.flush()
        assert words.read_text(encoding="utf-8") == "noise"
    assert not words.exists()
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'after')"], check=True)
    assert capfd.readouterr().err == "starting\nafter"


def test_stderr_is_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), redirected_stderr():
        raise RuntimeError
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'after')"], check=True)
    assert capfd.readouterr().err == "after"


def test_errors_of_spark_are_reduced_to_their_cause() -> None:
    from pyspark.errors import PySparkException

    trace = (
        "Job aborted\n  File worker.py, line 3\nskerry.errors.RecordingError: it is damaged\nmore"
    )
    with pytest.raises(PipelineError, match=r"^it is damaged$") as caught, spark_errors():
        raise PySparkException(trace)
    assert "--debug" in (caught.value.hint or "")
    with pytest.raises(PipelineError, match=r"^no such column$"), spark_errors():
        raise PySparkException("no such column\nat org.apache.spark")
    with pytest.raises(PipelineError, match="JVM of Spark has ended"), spark_errors():
        raise ConnectionRefusedError


def test_little_is_few_rows_recorded_and_small_tables(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    assert is_small(str(lake), [str(recordings)])
    lake.mkdir()
    (lake / "a.parquet").write_bytes(b"12345")
    monkeypatch.setattr("skerry.spark.startup.small_batches.FEW_BYTES", 5)
    assert is_small(str(lake))
    monkeypatch.setattr("skerry.spark.startup.small_batches.FEW_BYTES", 4)
    assert not is_small(str(lake))
    assert not is_small("s3a://bucket/lake-that-is-not-read")


def test_many_rows_recorded_are_not_little(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.spark.startup.small_batches.FEW_ROWS", 5)
    assert not is_small(str(tmp_path), [str(recordings)])


def test_an_interruption_waits_until_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_handler_that_was_installed_meanwhile_is_kept() -> None:
    before = signal.getsignal(signal.SIGINT)

    def own(_number: int, _frame: object) -> None:
        """Of Spark."""

    try:
        with deferred_interrupt():
            signal.signal(signal.SIGINT, own)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_only_the_main_thread_has_signals_to_hold_back() -> None:
    done = []

    def work() -> None:
        with deferred_interrupt():
            done.append("all of it")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["all of it"]


@pytest.mark.slow
def test_an_invalid_master_is_reported_with_the_message_of_the_jvm(tmp_path: Path) -> None:
    """In a process of its own: here a session may run, which would be used."""
    (tmp_path / "lake").mkdir()
    command = ("pipeline", "compact", "--tables", str(tmp_path / "lake"), "--master", "nonsense")
    program = "import sys; from skerry.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot start Spark on nonsense: Master must" in done.stderr
    assert "--master" in done.stderr
    assert "above" not in done.stderr


def test_the_cause_is_found_in_the_messages_of_the_jvm(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text(
        'WARN Utils: odd\nException in thread "main" org.apache.X$YException: the first\n'
        "\tat org.apache.X.y(X.scala:1)\nCaused by: java.io.IOException: the reason\n"
        "\tat org.apache.X.y(X.scala:1)\n\t... 3 more\n"
    )
    reported = _not_started("spark://h:1", ValueError("a\nb"), words)
    assert str(reported) == "cannot start Spark on spark://h:1: the reason"
    words.write_text("Error occurred\n\nToo small maximum heap\n")
    reported = _not_started("local", ValueError("a\nb"), words)
    assert str(reported).endswith("local: Error occurred; Too small maximum heap")
    words.write_text("")
    assert str(_not_started("local", ValueError("a\nb"), words)).endswith("local: a")


@pytest.mark.parametrize("command", ["run", "follow"])
def test_files_of_a_batch_are_not_to_be_deleted(run: Run, tmp_path: Path, command: str) -> None:
    place = ("--recordings", tmp_path, "--tables", tmp_path / "lake")
    done = run("pipeline", command, *place, "--vacuum", "0.5")
    assert done.code == 2
    assert "or 0" in done.err


def test_no_hours_leave_files_alone() -> None:
    seen = []

    @click.command()
    @vacuum_option(168.0)
    def command(vacuum_hours: float | None) -> None:
        seen.append(vacuum_hours)

    for arguments in ([], ["--vacuum", "0"], ["--vacuum", "1"]):
        command.main(arguments, standalone_mode=False)
    assert seen == [KEEP_HOURS, None, 1.0]
