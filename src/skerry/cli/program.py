"""The program `skerry`: finds the command, runs it, and reports its errors.

A command is imported when it is called, not when it is listed, so that `skerry --help` starts
quickly.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError

from skerry.cli.lazy_group import LazyGroup
from skerry.cli.output import CliConfig, Output, current_output
from skerry.cli.parameters import WrongValue
from skerry.errors import ConfigError, ConnectFailed, Excluded, SkerryError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
EXCLUDED: Final = 4
"""Exit codes. The last one is that of a node that its system has excluded."""

COMPLETE_VARIABLE: Final = "_SKERRY_COMPLETE"
"""Environment variable by which the completion script of a shell calls the program."""

COMMANDS: Final[Mapping[str, str]] = {
    "bench": "Measure a node.",
    "bw": "Show the bandwidth of a type or a subject.",
    "completion": "Print the completion script of a shell.",
    "config": "Show the configuration.",
    "context": "Save nodes under names, and select one.",
    "delay": "Show the age at arrival of a type or a subject.",
    "demo": "Run a guided tour.",
    "distributor": "Publish and subscribe by IP multicast.",
    "doctor": "Check this computer, and list what to change.",
    "get": "Show the current objects of a type.",
    "hz": "Show the rate of a type or a subject.",
    "node": "Run a node.",
    "picture": "Show the nodes of the system.",
    "pipeline": "Turn recordings into tables, and query them.",
    "portal": "Run a portal for Goby programs, and be a client of one.",
    "pub": "Publish objects to a node.",
    "record": "Record a space, and work with recordings.",
    "replay": "Play a recording back.",
    "request": "Send a request, and print its answer.",
    "sim": "Run whole systems in a simulated world.",
    "sql": "Query the tables of the pipeline in SQL.",
    "sub": "Subscribe to a type or a subject.",
    "top": "Monitor a node.",
    "types": "Check, format, compare, generate and list types.",
    "version": "Print the version.",
}
"""Commands and their lines in `skerry --help`."""


_SYNONYMS: Final[Mapping[str, str]] = {
    "benchmark": "bench",
    "broker": "node run",
    "call": "request",
    "consume": "sub",
    "echo": "sub",
    "listen": "sub",
    "list": "types list",
    "monitor": "top",
    "play": "replay",
    "produce": "pub",
    "publish": "pub",
    "put": "pub",
    "query": "get",
    "rate": "hz",
    "req": "request",
    "run": "node run",
    "server": "node run",
    "start": "node run",
    "status": "top",
    "subscribe": "sub",
    "topic": "types list",
}
"""What people from other systems type, and the command that they mean."""


@click.group(
    cls=LazyGroup,
    package="skerry.cli",
    summaries=COMMANDS,
    synonyms=_SYNONYMS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file. Default: SKERRY_CONFIG, ./skerry.toml, or the user's own file.",
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    help="When to use colours. Default: auto, which is on a terminal only.",
)
@click.option("--debug", is_flag=True, help="Print a traceback with an error.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, wanted: _print_version(context) if wanted else None,
    help="Print the version and exit.",
)
@click.pass_context
def skerry(context: click.Context, *, file: Path | None, color: str | None, debug: bool) -> None:
    """One space of typed objects, shared by many programs."""
    from skerry.cli.config import load_section, read_settings

    output = current_output()
    output.debug = debug
    read_settings(context, file=file, flags={"cli.color": ("--color", color)})
    output.config = load_section("cli", CliConfig).value


def run(arguments: Sequence[str] | None = None) -> int:
    with _streams_to_write_to():
        return _run(arguments, Output())


def _run(arguments: Sequence[str] | None, output: Output) -> int:
    if not __debug__:
        output.error(
            "skerry does not run with assertions switched off: its guarantees depend on them",
            hint="leave out -O, and unset PYTHONOPTIMIZE",
        )
        return FAILED
    try:
        code = _run_command(arguments, output)
        # Flushing buffered output may also fail, on a closed pipe or a full disk.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. The interpreter flushes at exit and must not report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _report(error, output)
    return code


@contextmanager
def _streams_to_write_to() -> Iterator[None]:
    """Replace standard streams that are closed, as in a program that was started with `>&-`.

    Writing data to a closed stdout is an error. Messages to a closed stderr are discarded. A
    character that the encoding of stdout does not have is written as an escape.
    """
    with ExitStack() as stack:
        if sys.stdout is None or sys.stdout.closed:
            stack.enter_context(redirect_stdout(_ClosedOutput()))
        elif isinstance(sys.stdout, io.TextIOWrapper):
            stack.enter_context(_escapes(sys.stdout))
        if sys.stderr is None or sys.stderr.closed:
            nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(redirect_stderr(nowhere))
        yield


@contextmanager
def _escapes(stream: io.TextIOWrapper) -> Iterator[None]:
    """Write characters that `stream` cannot encode as escapes, as stderr does by default."""
    before = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        # This flushes. A failure to flush has been reported already.
        with suppress(OSError):
            stream.reconfigure(errors=before)


class _ClosedOutput(io.TextIOBase):
    """Replaces a closed stdout: every write fails."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def _run_command(arguments: Sequence[str] | None, output: Output) -> int:
    try:
        result = skerry.main(
            args=arguments,
            prog_name="skerry",
            complete_var=COMPLETE_VARIABLE,
            standalone_mode=False,
            obj=output,
        )
    except SystemExit as error:  # click's quiet end after a broken pipe
        return error.code if isinstance(error.code, int) else FAILED
    except (Exception, KeyboardInterrupt) as error:
        return _report(error, output)
    return result if isinstance(result, int) else DONE


def _report(error: BaseException, output: Output) -> int:
    """Print an error to stderr and return its exit code."""
    if output.debug:
        output.traceback(error)
    match error:
        case NoArgsIsHelpError():
            output.note(error.format_message())
            return USAGE
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "skerry"
            output.error(error.format_message(), hint=_usage_hint(error, path))
            return USAGE
        case click.ClickException():
            output.error(error.format_message())
        case click.Abort() | KeyboardInterrupt():
            output.error("interrupted")
        case SkerryError():
            output.error(str(error), hint=error.hint)
            if isinstance(error, ConfigError) and _comes_from_flags(error):
                return USAGE
            if isinstance(error, Excluded):
                return EXCLUDED
            return UNREACHABLE if isinstance(error, ConnectFailed) else FAILED
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            output.error(f"{where}{error.strerror or error}")
        case _:
            output.error(
                f"this is a bug in skerry: {type(error).__name__}: {error}",
                hint="run `skerry --debug ...` and report the traceback",
            )
    return FAILED


def _comes_from_flags(error: ConfigError) -> bool:
    """Whether all values in question were given on the command line."""
    return all(origin.startswith("flag ") for origin in error.origin.split(", "))


def _usage_hint(error: click.UsageError, path: str) -> str:
    if isinstance(error, WrongValue) and error.hint:
        return error.hint
    if isinstance(error, click.NoSuchOption) and error.option_name[1:2].isdigit():
        return (
            f"put -- before a value that begins with a minus: `{path} ... -- {error.option_name}`"
        )
    return f"see `{path} --help`"


def _print_version(context: click.Context) -> None:
    from skerry import build_info

    current_output().line(f"skerry {build_info.version()} ({build_info.mode()})")
    context.exit()
