"""The Spark of a command: which one, and what people see while it starts.

A JVM takes seconds to start and has much to say while it does. People see one line that tells what
is going on; the words of the JVM go to a file, and its last ones are shown where it fails.
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
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import click

from skerry.cli.output import Output
from skerry.cli.parameters import FiniteFloat
from skerry.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SparkChoice",
    "batch_option",
    "elsewhere",
    "held_back",
    "is_little",
    "recordings_option",
    "require_folder",
    "require_tables",
    "spark_options",
    "spoken_faults",
    "tables_option",
    "vacuum_option",
    "waiting",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_DEFAULT_MEMORY: Final = "1g"
_LAST_LINES: Final = 5
_TALKATIVE: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers of Spark that tell of each fault with all that led to it."""
_OWN_ERROR: Final = re.compile(r"^(?:skerry\.errors\.|[\w.]*\.)?(\w+(?:Error|Exceeded)): (.+)$")
_JVM_ERROR: Final = re.compile(
    r'(?:Exception in thread "[^"]*" |Caused by: )(?:[\w.$]+(?:Exception|Error): )?(.+)'
)
"""How a JVM says what ended it; lines of where it was follow."""
_MEMORY: Final = re.compile(r"\d+[kmgt]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """Which Spark a command uses."""

    master: str = "local[*]"
    memory: str = _DEFAULT_MEMORY
    conf: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def session(
        self, output: Output, app_name: str, *, is_brief: bool = False
    ) -> Iterator[SparkSession]:
        """Inside, a session; one that was there before stays. Faults of Spark are PipelineError.

        With `is_brief` it is one for few rows.
        """
        from skerry.spark.startup.extras import require_spark

        require_spark()
        from pyspark.sql import SparkSession

        is_ours = SparkSession.getActiveSession() is None
        spark = self._started(output, app_name, is_brief)
        try:
            with spoken_faults():
                yield spark
        finally:
            if is_ours:
                # A JVM that is gone already has nothing to be stopped.
                with suppress(Exception):
                    spark.stop()

    def _started(self, output: Output, app_name: str, is_brief: bool) -> SparkSession:
        from pyspark.errors import PySparkException

        from skerry.spark.startup.session import session

        with elsewhere() as (words, people):
            try:
                with waiting(output, f"starting Spark on {self.master}", people), held_back():
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
                # What the JVM said is in the file, where nobody sees it.
                raise _not_started(self.master, error.__cause__, words) from error
            except Exception as error:
                raise _not_started(self.master, error, words) from error


def require_tables(tables: str) -> None:
    """PipelineError if there is no such folder: a slip in its name must not look like no rows."""
    from skerry.spark.startup.extras import require_spark

    require_spark()
    from skerry.spark.lake.store import TableStore

    if not TableStore(tables).require():
        error = PipelineError(f"there is no folder {tables}")
        error.hint = "`skerry pipeline run` makes tables of recordings"
        raise error


def require_folder(tables: str) -> None:
    """PipelineError if tables cannot be made there: it is something else, or out of reach."""
    from skerry.spark.startup.extras import require_spark

    require_spark()
    from skerry.spark.lake.store import TableStore

    store = TableStore(tables)
    if not store.require() and store.is_local and Path(store.root).exists():
        error = PipelineError(f"{tables} is no folder")
        error.hint = "name a folder for the tables; it is made if it is not there"
        raise error


def is_little(tables: str, recordings: Sequence[str] = ()) -> bool:
    """Whether the tables are small, and what is recorded is not much: Spark will be done soon."""
    from skerry.spark.startup.extras import require_spark

    require_spark()
    from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path
    from skerry.spark.jobs.loop import backlog
    from skerry.spark.lake.store import TableStore
    from skerry.spark.startup.small_batches import FEW_BYTES, FEW_ROWS

    if isinstance(resolve_path(tables), RemotePath):
        # To list all files that are elsewhere takes longer than it can gain.
        return False
    if recordings and backlog(recordings, {}) > FEW_ROWS:
        return False
    return sum(file.byte_count for file in TableStore(tables).listed("")) <= FEW_BYTES


def spark_options(command: Command) -> Command:
    """Gives a command `--master`, `--memory` and `--conf`, as its argument `choice`."""

    @functools.wraps(command)
    def with_choice(*, master: str, memory: str, conf: tuple[str, ...], **others: Any) -> Any:
        settings = dict(_setting(text) for text in conf)
        choice = SparkChoice(master=master, memory=memory, conf=settings)
        return command(choice=choice, **others)

    options = [
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            metavar="M",
            help="Where Spark runs: local[N], spark://HOST:7077, yarn, k8s://URL.",
        ),
        click.option(
            "--memory",
            default=_DEFAULT_MEMORY,
            show_default=True,
            metavar="SIZE",
            callback=_checked_memory,
            help="Memory of the JVM of the driver; on local, Python takes about as much.",
        ),
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark; may be given several times.",
        ),
    ]
    wrapped: Any = with_choice
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def tables_option(command: Command) -> Command:
    """Gives a command `--tables`."""
    return click.option(
        "--tables",
        required=True,
        metavar="DIR",
        help="Folder of the tables, or a place such as s3a://bucket/lake.",
    )(command)


def recordings_option(command: Command) -> Command:
    """Gives a command `--recordings`."""
    return click.option(
        "--recordings",
        required=True,
        multiple=True,
        metavar="DIR",
        help="A recording or a folder of recordings, or a place such as s3a://bucket/recordings;"
        " may be given several times.",
    )(command)


def vacuum_option(hours: float) -> Callable[[Command], Command]:
    """Gives a command `--vacuum`, as its argument `vacuum_hours`: None leaves files alone."""
    return click.option(
        "--vacuum",
        "vacuum_hours",
        type=FiniteFloat(min=0),
        default=hours,
        show_default=True,
        metavar="HOURS",
        callback=_checked_vacuum,
        help="Once a day, or after so long if that is less, delete files that have been in no"
        " table for so long; 0: never.",
    )


def batch_option(command: Command) -> Command:
    """Gives a command `--batch-bytes`."""
    return click.option(
        "--batch-bytes",
        type=click.IntRange(min=1),
        default=None,
        metavar="N",
        help="Recorded bytes of one batch at most; by default a sixth of the memory of Spark.",
    )(command)


@contextmanager
def waiting(output: Output, what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Tells people on a terminal what takes so long."""
    stream = stream or sys.stderr
    if not (output.config.progress and stream.isatty()):
        yield
        return
    with output.console(stream).status(what):
        yield


@contextmanager
def held_back() -> Iterator[None]:
    """Inside, Ctrl-C has to wait, and is raised at the end.

    A JVM finds nobody to report to when it is left while it starts, and then it never ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_asked = False

    def note(_number: int, _frame: object) -> None:
        nonlocal is_asked
        is_asked = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        # Once the JVM is there Spark has a handler of its own, which stays.
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
        if is_asked:
            raise KeyboardInterrupt


@contextmanager
def elsewhere() -> Iterator[tuple[Path, TextIO]]:
    """Inside, programs that are started write to a file what they would write to stderr.

    Gives the file, and a stream that still is the real stderr. What is started here keeps writing
    to the file; it has no name any more once this ends, and goes with them.
    """
    handle, name = tempfile.mkstemp(prefix="skerry-spark-", suffix=".log")
    words = Path(name)
    real = os.dup(2)
    try:
        sys.stderr.flush()
        os.dup2(handle, 2)
        with os.fdopen(os.dup(real), "w", encoding="utf-8") as people:
            yield words, people
    finally:
        os.dup2(real, 2)
        os.close(real)
        os.close(handle)
        words.unlink(missing_ok=True)


@contextmanager
def spoken_faults() -> Iterator[None]:
    """Inside, an error of Spark is a PipelineError that says the one thing that matters."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    for name in _TALKATIVE:
        # They would say it first, and in a form that nobody reads.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _fault(str(error)) from error
    except ConnectionError as error:
        raise _fault("the JVM of Spark is gone") from error


def _fault(text: str) -> PipelineError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [match for match in map(_OWN_ERROR.match, lines) if match is not None]
    what = own[-1][2] if own else (lines or ["Spark failed"])[0]
    error = PipelineError(what)
    error.hint = "`skerry --debug pipeline ...` shows all that Spark says about it"
    return error


def _not_started(master: str, error: Exception, words: Path) -> PipelineError:
    text = words.read_text(encoding="utf-8", errors="replace")
    said = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [match[1] for match in map(_JVM_ERROR.match, said) if match is not None]
    last = causes[-1] if causes else "; ".join(said[-_LAST_LINES:])
    reason = last or next(iter(str(error).splitlines()), type(error).__name__)
    fault = PipelineError(f"cannot start Spark on {master}: {reason}")
    fault.hint = "is the master right, and is there memory for it? see --master and --memory"
    return fault


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"--conf takes KEY=VALUE, not {text!r}")
    return key.strip(), value


def _checked_vacuum(
    _context: click.Context, _option: click.Parameter, hours: float
) -> float | None:
    if 0 < hours < 1:
        raise click.BadParameter("a batch may take an hour; write 1 or more, or 0 for never.")
    return hours or None


def _checked_memory(_context: click.Context, _option: click.Parameter, text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise click.BadParameter(f"{text!r} is no amount of memory; write it as 2g or 512m.")
    return text
