"""The Spark session of a command, its options, and the status line while it starts.

A JVM takes seconds to start and writes many lines to stderr. The user sees one status line; the
messages of the JVM go to a file, and the last of them are shown if it fails.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import click

from skerry.cli.output import Output
from skerry.cli.parameters import Command, FiniteFloat, with_options
from skerry.cli.progress import status_line
from skerry.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_MEMORY: Final = "1g"
_LAST_LINES: Final = 5
_VERBOSE_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers of Spark that log each error with its tracebacks."""
_OWN_ERROR: Final = re.compile(r"^(?:skerry\.errors\.|[\w.]*\.)?(\w+(?:Error|Exceeded)): (.+)$")
_JVM_ERROR: Final = re.compile(
    r'(?:Exception in thread "[^"]*" |Caused by: )(?:[\w.$]+(?:Exception|Error): )?(.+)'
)
"""The line of a JVM with the exception that ended it; the stack trace follows."""
_MEMORY: Final = re.compile(r"\d+[kmgt]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    master: str = "local[*]"
    memory: str = _DEFAULT_MEMORY
    conf: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def session(
        self, output: Output, app_name: str, *, is_brief: bool = False
    ) -> Iterator[SparkSession]:
        """A session, stopped at the end unless it was active before.

        Errors of Spark are raised as PipelineError. `is_brief` tunes the session for few rows.
        """
        from skerry.spark.startup.extras import require_spark

        require_spark()
        from pyspark.sql import SparkSession

        is_ours = SparkSession.getActiveSession() is None
        spark = self._started(output, app_name, is_brief)
        try:
            with spark_errors():
                yield spark
        finally:
            if is_ours:
                # The JVM may have ended already.
                with suppress(Exception):
                    spark.stop()

    def _started(self, output: Output, app_name: str, is_brief: bool) -> SparkSession:
        from pyspark.errors import PySparkException

        from skerry.spark.startup.session import session

        with redirected_stderr() as (log, stderr):
            try:
                with (
                    status_line(output, f"starting Spark on {self.master}", stderr),
                    deferred_interrupt(),
                ):
                    return session(
                        self.master,
                        app_name=app_name,
                        memory=self.memory,
                        conf=self.conf,
                        is_brief=is_brief,
                    )
            except PipelineError as error:
                if not isinstance(error.__cause__, PySparkException):
                    raise
                # The messages of the JVM are only in the file.
                raise _not_started(self.master, error.__cause__, log) from error
            except Exception as error:
                raise _not_started(self.master, error, log) from error


def require_tables(tables: str) -> None:
    """PipelineError if the folder does not exist: a misspelled name must not look like no rows."""
    from skerry.spark.startup.extras import require_spark

    require_spark()
    from skerry.spark.lake.store import TableStore

    if not TableStore(tables).require():
        error = PipelineError(f"cannot read tables: there is no folder {tables}")
        error.hint = "create tables from recordings with `skerry pipeline run`"
        raise error


def require_folder(tables: str) -> None:
    """PipelineError if tables cannot be written there: not a folder, or not reachable."""
    from skerry.spark.startup.extras import require_spark

    require_spark()
    from skerry.spark.lake.store import TableStore

    store = TableStore(tables)
    if not store.require() and store.is_local and Path(store.root).exists():
        error = PipelineError(f"cannot write tables: {tables} is not a folder")
        error.hint = "give a folder for the tables; it is created if it does not exist"
        raise error


def is_small(tables: str, recordings: Sequence[str] = ()) -> bool:
    """Whether tables and recordings are so small that Spark needs little time."""
    from skerry.spark.startup.extras import require_spark

    require_spark()
    from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path
    from skerry.spark.jobs.loop import backlog
    from skerry.spark.lake.store import TableStore
    from skerry.spark.startup.small_batches import FEW_BYTES, FEW_ROWS

    if isinstance(resolve_path(tables), RemotePath):
        # Listing all files of a remote path takes longer than it saves.
        return False
    if recordings and backlog(recordings, {}) > FEW_ROWS:
        return False
    return sum(file.byte_count for file in TableStore(tables).listed("")) <= FEW_BYTES


def spark_options(command: Command) -> Command:
    """Adds `--master`, `--memory` and `--conf` to a command, as its argument `choice`."""

    @functools.wraps(command)
    def with_choice(*, master: str, memory: str, conf: tuple[str, ...], **others: Any) -> Any:
        settings = dict(_setting(text) for text in conf)
        choice = SparkChoice(master=master, memory=memory, conf=settings)
        return command(choice=choice, **others)

    made: Any = with_options(
        click.option(
            "--master",
            default="local[*]",
            metavar="M",
            help="Master URL of Spark: local[N], spark://HOST:7077, yarn, k8s://URL.",
        ),
        click.option(
            "--memory",
            default=_DEFAULT_MEMORY,
            metavar="SIZE",
            callback=_checked_memory,
            help="Memory of the driver's JVM; on local, Python needs about as much in addition.",
        ),
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A Spark setting; may be given several times.",
        ),
    )(with_choice)
    return cast("Command", made)


tables_option = click.option(
    "--tables",
    required=True,
    metavar="DIR",
    help="Folder of the tables, or a remote path such as s3a://bucket/lake.",
)

recordings_option = click.option(
    "--recordings",
    required=True,
    multiple=True,
    metavar="DIR",
    help="A recording or a folder of recordings, or a remote path such as"
    " s3a://bucket/recordings; may be given several times.",
)


def vacuum_option(hours: float) -> Callable[[Command], Command]:
    """Adds `--vacuum` to a command, as its argument `vacuum_hours`; None if it is 0."""
    return click.option(
        "--vacuum",
        "vacuum_hours",
        type=FiniteFloat(min=0),
        default=hours,
        metavar="HOURS",
        callback=_checked_vacuum,
        help="Delete files that no table has named for this many hours, once a day or more often"
        " if it is less than a day; 0 never deletes.",
    )


batch_option = click.option(
    "--batch-bytes",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Maximum size of one batch in recorded bytes; by default a sixth of Spark's memory.",
)
"""Adds `--batch-bytes` to a command."""


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Within the context, Ctrl-C is deferred; it is raised at the end.

    A JVM whose parent is interrupted during the start waits for it forever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_requested = False

    def defer(_number: int, _frame: object) -> None:
        nonlocal is_requested
        is_requested = True

    before = signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        # Spark installs its own handler when the JVM has started, which is kept.
        if signal.getsignal(signal.SIGINT) is defer:
            signal.signal(signal.SIGINT, before)
        if is_requested:
            raise KeyboardInterrupt


@contextmanager
def redirected_stderr() -> Iterator[tuple[Path, TextIO]]:
    """Within the context, stderr of started processes is a file.

    Yields the path of the file, and a stream to the real stderr. Processes that were started here
    keep writing to the file, which is unlinked at the end and freed when they end.
    """
    handle, name = tempfile.mkstemp(prefix="skerry-spark-", suffix=".log")
    log = Path(name)
    real = os.dup(2)
    try:
        sys.stderr.flush()
        os.dup2(handle, 2)
        with os.fdopen(os.dup(real), "w", encoding="utf-8") as stderr:
            yield log, stderr
    finally:
        os.dup2(real, 2)
        os.close(real)
        os.close(handle)
        log.unlink(missing_ok=True)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Within the context, errors of Spark are raised as PipelineError with their cause only."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    for name in _VERBOSE_LOGGERS:
        # They would log the same error first, as JSON.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _fault(str(error)) from error
    except ConnectionError as error:
        raise _fault("the JVM of Spark has ended") from error


def _fault(text: str) -> PipelineError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [match for match in map(_OWN_ERROR.match, lines) if match is not None]
    what = own[-1][2] if own else (lines or ["Spark failed"])[0]
    error = PipelineError(what)
    error.hint = "`skerry --debug pipeline ...` shows all messages of Spark"
    return error


def _not_started(master: str, error: Exception, log: Path) -> PipelineError:
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [match[1] for match in map(_JVM_ERROR.match, lines) if match is not None]
    last = causes[-1] if causes else "; ".join(lines[-_LAST_LINES:])
    reason = last or next(iter(str(error).splitlines()), type(error).__name__)
    fault = PipelineError(f"cannot start Spark on {master}: {reason}")
    fault.hint = "check --master, and that there is enough memory for --memory"
    return fault


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"--conf must be KEY=VALUE, not {text!r}")
    return key.strip(), value


def _checked_vacuum(
    _context: click.Context, _option: click.Parameter, hours: float
) -> float | None:
    if 0 < hours < 1:
        raise click.BadParameter("must be 1 or more, because a batch may take an hour, or 0.")
    return hours or None


def _checked_memory(_context: click.Context, _option: click.Parameter, text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not a memory size; write it as 2g or 512m.")
    return text
