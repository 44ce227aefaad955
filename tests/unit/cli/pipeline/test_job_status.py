"""What people and monitors see of a job."""

from __future__ import annotations

import urllib.request

import click
import pytest

from skerry.cli.output import Output
from skerry.cli.pipeline.job_status import (
    JobStatus,
    metrics_option,
    progress_text,
    served_metrics,
    shown_progress,
    summary_text,
)
from skerry.errors import ConnectFailed
from skerry.spark.jobs.loop import Progress


def progress(**others: object) -> Progress:
    usual = {
        "batch_count": 2,
        "row_count": 1234,
        "rows_per_s": 50.0,
        "backlog_rows": 7,
        "stages_done": 1,
        "stages_total": 4,
    }
    return Progress(**{**usual, **others})  # type: ignore[arg-type]


def test_the_status_line_has_the_progress() -> None:
    assert summary_text(progress()) == "1,234 rows in 2 batches, 7 in the backlog"
    assert summary_text(progress(batch_count=1, backlog_rows=0)) == "1,234 rows in 1 batch"


def test_progress_counts_tasks_of_the_running_batch_and_estimates_the_end() -> None:
    now = progress(read_count=1500, batch_rows=400, backlog_rows=5000)
    assert progress_text(now) == (
        "1,600 rows read, 1,234 merged, 5,000 in the backlog, 50 rows/s, about 2 min left"
    )
    assert progress_text(progress(rows_per_s=0.0)) == "0 rows read, 1,234 merged, 7 in the backlog"


def test_notices_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(Output(), JobStatus()) as show:
        show(progress(notices=("Vessel@2 was opened",)))
        show(progress(notices=("Vessel@2 was opened",)))
    assert capsys.readouterr().err.count("Vessel@2 was opened") == 1


def test_metrics_are_those_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    status = JobStatus()
    status.progress(progress())
    status.batch_done(seconds=1.5, at_s=1000.0)
    with served_metrics("127.0.0.1:0", status, Output()):
        place = capsys.readouterr().err.split()[-1]
        with urllib.request.urlopen(place, timeout=10) as answer:
            text = answer.read().decode()
    assert "skerry_pipeline_rows_total 1234.0" in text
    assert "skerry_pipeline_backlog_rows 7.0" in text
    assert "skerry_pipeline_batch_seconds 1.5" in text
    assert "skerry_pipeline_is_running 1.0" in text


def test_an_address_in_use_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with served_metrics("127.0.0.1:0", JobStatus(), Output()):
        taken = capsys.readouterr().err.split()[-1].removeprefix("http://").partition("/")[0]
        with pytest.raises(ConnectFailed), served_metrics(taken, JobStatus(), Output()):
            pass


@pytest.mark.parametrize("place", ["nonsense", "127.0.0.1:99999", ":80", "127.0.0.1:"])
def test_the_address_of_metrics_is_checked_before_the_start(place: str) -> None:
    command = metrics_option(click.command()(lambda metrics: metrics))
    with pytest.raises(click.BadParameter, match="is not HOST:PORT"):
        command.main(["--metrics", place], standalone_mode=False)
    command.main(["--metrics", "127.0.0.1:0"], standalone_mode=False)
    command.main([], standalone_mode=False)
