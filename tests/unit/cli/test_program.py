"""The program `skerry`: lazy imports, exit codes and error messages."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from skerry.cli.program import COMMANDS, skerry
from skerry.cli.program import run as run_program
from skerry.errors import ConfigError, ConnectFailed, LimitExceeded

Run = Callable[..., Any]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Adds a command `fail` to `skerry`, which raises a given error."""

    def add(error: BaseException) -> None:
        @click.command()
        def fail() -> None:
            """Fail."""
            raise error

        monkeypatch.setitem(sys.modules, "skerry.cli.fail", SimpleNamespace(fail=fail))
        monkeypatch.setattr(skerry, "_summaries", {**COMMANDS, "fail": "Fail."})

    return add


def test_help_lists_every_command_and_succeeds(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    for name, summary in COMMANDS.items():
        assert f"  {name} " in done.out
        assert summary in done.out


def test_short_help_is_the_same_everywhere(run: Run) -> None:
    assert run("-h").out == run("--help").out
    assert run("config", "show", "-h").out == run("config", "show", "--help").out


def test_no_arguments_show_the_help_as_wrong_usage(run: Run) -> None:
    done = run()
    assert (done.code, done.out) == (2, "")
    assert done.err == run("--help").out


def test_version_option_prints_version_and_build(run: Run) -> None:
    done = run("--version")
    assert done.code == 0
    assert done.out.startswith("skerry ")


@pytest.mark.slow
def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from skerry.cli.main import main; main(['--help'])\n"
        "print([m for m in sys.modules if m.partition('.')[0] in"
        " {'rich', 'cbor2', 'asyncio', 'tomllib', 'hypothesis'}"
        " or m.startswith(('skerry.codec.', 'skerry.schema.', 'skerry.testing'))], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["verison"], "did you mean 'version'?"),
        (["VERSION"], "did you mean 'version'?"),
        (["zzz"], "unknown command 'zzz'"),
        (["version", "--jso"], "--jso"),
        (["--color", "pink", "version"], "pink"),
        (["config", "shw"], "shw"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(run: Run, arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith("error: ")
    assert words in first
    assert second.startswith("hint:  see `skerry ")


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (LimitExceeded(what="x", value=2, limit=1), 1, ["error: x is 2, the limit is 1"]),
        (ConnectFailed("no node answered"), 3, ["error: no node answered"]),
        (ConfigError(key="a", origin="flag --a", detail="no"), 2, ["error: a (flag --a): no"]),
        (
            ConfigError(key="a", origin="flag --a, x.toml", detail="no"),
            1,
            ["error: a (flag --a, x.toml): no"],
        ),
        (FileNotFoundError(2, "No such file", "a.dots"), 1, ["error: a.dots: No such file"]),
        (OSError("odd"), 1, ["error: odd"]),
        (KeyboardInterrupt(), 1, ["", "error: interrupted"]),
        (click.ClickException("no"), 1, ["error: no"]),
        (
            ZeroDivisionError("oh"),
            1,
            [
                "error: this is a bug in skerry: ZeroDivisionError: oh",
                "hint:  run `skerry --debug ...` and report the traceback",
            ],
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_error_is_printed_without_traceback(
    run: Run,
    failing: Callable[[BaseException], None],
    error: Exception,
    code: int,
    lines: list[str],
) -> None:
    failing(error)
    done = run("fail")
    assert (done.code, done.out) == (code, "")
    assert done.err.splitlines() == lines


def test_hint_of_an_error_follows_it(run: Run, failing: Callable[[BaseException], None]) -> None:
    error = ConnectFailed("no node answered")
    error.hint = "start one"
    failing(error)
    assert run("fail").err.splitlines() == ["error: no node answered", "hint:  start one"]


def test_debug_adds_the_traceback(run: Run, failing: Callable[[BaseException], None]) -> None:
    failing(ZeroDivisionError("oh"))
    done = run("--debug", "fail")
    assert done.code == 1
    assert "Traceback (most recent call last)" in done.err
    assert done.err.splitlines()[-2].startswith("error: ")


def test_exit_code_of_a_command_is_passed_on(
    run: Run, failing: Callable[[BaseException], None]
) -> None:
    failing(click.exceptions.Exit(3))
    assert run("fail").code == 3


def python(
    *arguments: str, environ: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, text=True, stderr=subprocess.PIPE, env={**os.environ, **(environ or {})}, **options
    )


@pytest.mark.slow
def test_without_assertions_nothing_starts(clean_place: Path) -> None:
    done = python("-O", "-m", "skerry", "version", stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: skerry does not run with assertions switched off")


@pytest.mark.slow
def test_closed_pipe_is_not_reported(clean_place: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = python("-m", "skerry", "config", "show", stdout=write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["version", "version --json", "config show", "--help"])
def test_data_for_a_closed_output_is_an_error(clean_place: Path, arguments: str) -> None:
    done = shell(f"{arguments} >&-")
    assert (done.returncode, done.stderr) == (1, "error: standard output is closed\n")


@pytest.mark.slow
def test_a_closed_stdout_does_not_matter_without_output(clean_place: Path) -> None:
    done = shell("verison >&-")
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown command 'verison'")


@pytest.mark.slow
def test_messages_to_a_closed_stderr_are_discarded(clean_place: Path) -> None:
    assert shell("version 2>&-").stdout.startswith("skerry ")
    done = shell("verison >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def shell(words: str) -> subprocess.CompletedProcess[str]:
    """A command line with redirections, as a shell carries it out."""
    script = f'exec "$0" -m skerry {words}'
    return subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True)


def test_a_stdout_closed_by_the_caller_stays_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert run_program(["--version"]) == 1
    assert sys.stdout is closed
    assert capsys.readouterr().err == "error: standard output is closed\n"


@pytest.mark.slow
def test_full_disk_is_reported(clean_place: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = python("-m", "skerry", "version", stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device")


@pytest.mark.slow
def test_shell_completion_offers_commands(clean_place: Path) -> None:
    environ = {"_SKERRY_COMPLETE": "bash_complete", "COMP_WORDS": "skerry ver", "COMP_CWORD": "1"}
    done = python("-m", "skerry", environ=environ, stdout=subprocess.PIPE)
    assert done.stdout == "plain,version\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", r"\xdcber Pl\xe4tze \u20ac"), ("latin-1", r"Über Plätze \u20ac")],
)
def test_characters_that_the_output_does_not_have_are_escaped(
    clean_place: Path, encoding: str, shown: str
) -> None:
    text = "Über Plätze €"
    source = f"/// {text}\nstruct Place {{ 1: bool b; //< {text}\n}}\n"
    Path("a.dots").write_text(source, encoding="utf-8")
    environ = {"PYTHONIOENCODING": encoding}
    command = ("-m", "skerry", "types", "show", "a.dots")
    done = python(*command, environ=environ, encoding="latin-1", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(shown) == 2
    done = python(*command, "--json", environ=environ, encoding="latin-1", stdout=subprocess.PIPE)
    assert json.loads(done.stdout)["documentation"] == text


def test_the_output_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    assert run_program(["--version"]) == 0
    assert stream.errors == "strict"


@pytest.mark.slow
@pytest.mark.parametrize("words", ["version", "types check a.dots", "demo --seconds 0.1"])
def test_missing_current_folder_is_reported(clean_place: Path, words: str) -> None:
    script = f'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m skerry {words}'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: the current folder does not exist any more\nhint:  change to another folder\n"
    )
