"""Output of commands: streams, JSON, tables and colours."""

from __future__ import annotations

import enum
import io
import json
import sys
import uuid

import click
import pytest

from skerry.cli.output import CliConfig, Output, current_output, json_option, json_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Level(enum.Enum):
    LOW = "low"


def test_data_is_written_to_stdout_and_messages_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output()
    output.line("data")
    output.json_line({"a": 1})
    output.note("note")
    output.warning("careful")
    output.error("wrong", hint="do this")
    captured = capsys.readouterr()
    assert captured.out == 'data\n{"a": 1}\n'
    assert captured.err == "note\nwarning: careful\nerror: wrong\nhint:  do this\n"


def test_table_is_not_wrapped_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().table(("key", "value"), [("a", "x" * 300), ("b", 2)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["key", "value"], ["a", "x" * 300], ["b", "2"]]


def test_cells_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("text",), [("[bold]not markup[/bold]",)])
    assert "[bold]not markup[/bold]" in capsys.readouterr().out


def test_control_characters_of_cells_are_shown_by_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().table(("text",), [("\x1b[2Jgone\x07",)])
    assert "\\x1b[2Jgone\\x07" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Level.LOW, "low"),
        (b"\x01\xff", "01ff"),
        ({"b", "a"}, ["a", "b"]),
        ({"b", 10, 9, None}, [9, 10, "b", None]),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("Fähre", "Fähre"),
        (None, None),
    ],
)
def test_json_has_plain_values(value: object, expected: object) -> None:
    assert json.loads(json_text({"x": value})) == {"x": expected}


def test_json_is_one_line_with_fields_in_their_order() -> None:
    assert json_text({"b": "x\ny", "a": "ö"}) == '{"b": "x\\ny", "a": "ö"}'


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "F\\u00e4hre"), ("utf-8", "Fähre")])
def test_json_is_escaped_where_the_stream_needs_it(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    Output().json_line({"x": "Fähre"})
    assert raw.getvalue().decode(encoding) == f'{{"x": "{shown}"}}\n'


@pytest.mark.parametrize(
    ("color", "environ", "on_terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colours_follow_the_configuration_and_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    color: str,
    environ: dict[str, str],
    on_terminal: bool,
    expected: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if on_terminal else io.StringIO()
    config = CliConfig(color=color)  # type: ignore[arg-type]  # the parameter is one of the three
    assert Output(config).uses_color(stream) is expected


@pytest.mark.parametrize(("color", "has_escapes"), [("always", True), ("never", False)])
def test_errors_and_tables_are_coloured_on_demand(
    capsys: pytest.CaptureFixture[str], color: str, has_escapes: bool
) -> None:
    output = Output(CliConfig(color=color))  # type: ignore[arg-type]  # as above
    output.error("wrong")
    output.table(("key",), [("a",)])
    captured = capsys.readouterr()
    assert ("\x1b[" in captured.err) is has_escapes
    assert ("\x1b[" in captured.out) is has_escapes


def test_traceback_shows_the_origin_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise LookupError("lost")
    except LookupError as error:
        Output().traceback(error)
    assert capsys.readouterr().err.endswith("LookupError: lost\n")


def test_commands_find_their_output_and_the_json_option() -> None:
    seen: list[tuple[Output, bool]] = []

    @click.command()
    @json_option
    def command(*, as_json: bool) -> None:
        seen.append((current_output(), as_json))

    output = Output()
    command.main(["--json"], standalone_mode=False, obj=output)
    command.main([], standalone_mode=False, obj=output)
    assert seen == [(output, True), (output, False)]


def test_console_writes_to_the_stream_it_is_for() -> None:
    stream = io.StringIO()
    Output().console(stream).print("x")
    assert stream.getvalue() == "x\n"
    assert Output().console(sys.stderr).file is sys.stderr
