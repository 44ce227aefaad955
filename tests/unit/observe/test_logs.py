"""Log lines: their two forms, their facts, and limits for repeated warnings."""

from __future__ import annotations

import io
import json
import logging

import pytest

from skerry.observe.logs import (
    LOG_LINES_PER_HOST_MAX,
    LOG_LINES_PER_MESSAGE_MAX,
    LOG_REPEAT_COUNT_MAX,
    JsonFormatter,
    RepeatFilter,
    TextFormatter,
    written_to,
)


def record(
    message: str, *, level: int = logging.INFO, at_s: float = 0.0, **facts: object
) -> logging.LogRecord:
    made = logging.LogRecord("skerry.node", level, "file.py", 1, message, None, None)
    made.created = at_s
    made.__dict__.update(facts)
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text_line_has_message_and_facts() -> None:
    line = TextFormatter().format(record("link up", peer="ann", rtt_ms=3, why="", text="a b"))
    assert line[8:] == ' info    link up peer=ann rtt_ms=3 why="" text="a b"'


def test_text_line_has_no_control_characters() -> None:
    line = TextFormatter().format(record("link up", peer="\x1b[2J\n", data=b"\x00\xff"))
    assert line.endswith(r"peer=\x1b[2J\n data=00ff")


def test_json_line_is_one_object() -> None:
    line = JsonFormatter().format(record("link up", at_s=1.5, peer="å\n", level_=7, time=1))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "level": "info",
        "logger": "skerry.node",
        "message": "link up",
        "peer": "å\n",
        "level_": 7,
        "time_": 1,
    }


def test_exception_has_its_traceback_in_both_forms() -> None:
    failed = record("broken", level=logging.ERROR)
    try:
        raise ZeroDivisionError("nothing")
    except ZeroDivisionError as error:
        failed.exc_info = (type(error), error, error.__traceback__)
    assert TextFormatter().format(failed).endswith("ZeroDivisionError: nothing")
    assert json.loads(JsonFormatter().format(failed))["error"].endswith("nothing")


def shown(repeats: RepeatFilter, at_s: float, **facts: object) -> int | None:
    """How many were kept back before, where it is shown."""
    made = record("cut", level=logging.WARNING, at_s=at_s, **facts)
    return made.__dict__.get("repeated", 0) if repeats.filter(made) else None


def test_warning_is_shown_again_after_a_while_with_the_count_in_between() -> None:
    repeats = RepeatFilter(repeat_s=10.0)
    notified = [shown(repeats, float(second), host="a", client_id=1) for second in range(12)]
    assert notified == [0, *[None] * 9, 9, None]
    assert repeats.suppressed_count() == 1
    assert shown(repeats, 5.0, host="a", client_id=1) == 1, (
        "a clock that was set back hides nothing"
    )


def test_each_disconnected_client_has_its_line() -> None:
    repeats = RepeatFilter()
    assert [shown(repeats, 0.0, host="a", client_id=number) for number in range(10)] == [0] * 10
    assert shown(repeats, 1.0, host="a", client_id=3) is None
    assert shown(repeats, 1.0, host="b", client_id=3) == 0


@pytest.mark.parametrize("fact", ["id", "seed", "address", "destination"])
def test_each_node_and_address_of_a_system_has_its_line(fact: str) -> None:
    repeats = RepeatFilter()
    notified = [shown(repeats, 0.0, reason="silent", **{fact: name}) for name in ("a", "b", "a")]
    assert notified == [0, 0, None]


def test_flood_from_one_address_is_bounded_and_hides_no_other() -> None:
    repeats = RepeatFilter(repeat_s=10.0)
    flood = [shown(repeats, 0.0, host="bad", client_id=number) for number in range(1000)]
    few = LOG_LINES_PER_HOST_MAX
    assert flood == [0] * few + [None] * (1000 - few)
    assert shown(repeats, 1.0, host="good", client_id=1) == 0
    assert shown(repeats, 10.0, host="bad", client_id=2000) == 1000 - few, "and nothing is lost"
    assert len(repeats._periods) < few + 10, "those that are held back are not remembered"


def test_flood_from_many_addresses_is_bounded() -> None:
    repeats = RepeatFilter(repeat_s=10.0)
    most = LOG_LINES_PER_MESSAGE_MAX
    flood = [shown(repeats, 0.0, host=f"host{number}", client_id=number) for number in range(1000)]
    assert flood == [0] * most + [None] * (1000 - most)
    assert shown(repeats, 10.0, host="another", client_id=1) == 1000 - most


def test_only_warnings_of_one_message_and_logger_count_as_the_same() -> None:
    repeats = RepeatFilter()
    assert repeats.filter(record("cut", level=logging.WARNING))
    assert repeats.filter(record("slow", level=logging.WARNING))
    other = record("cut", level=logging.WARNING)
    other.name = "skerry.other"
    assert repeats.filter(other)
    assert [repeats.filter(record("cut")) for _ in range(3)] == [True] * 3


def test_number_of_counted_warnings_is_limited() -> None:
    repeats = RepeatFilter()
    assert repeats.filter(record("first", level=logging.WARNING))
    assert not repeats.filter(record("first", level=logging.WARNING))
    for number in range(LOG_REPEAT_COUNT_MAX):
        assert repeats.filter(record(f"warning {number}", level=logging.WARNING))
    assert len(repeats._periods) == LOG_REPEAT_COUNT_MAX
    assert repeats.filter(record("first", level=logging.WARNING))
    assert repeats.suppressed_count() == 1, "what is forgotten still counts"


def test_number_of_suppressed_warnings_is_logged_at_the_end() -> None:
    stream = io.StringIO()
    with written_to(stream, level="info", form="json"):
        for _ in range(4):
            logging.getLogger("skerry.test").warning("again")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in lines] == ["again", "repeated warnings were not shown"]
    assert lines[1]["count"] == 3


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        ("auto", io.StringIO(), True),
        ("auto", Terminal(), False),
        ("text", io.StringIO(), False),
        ("json", Terminal(), True),
    ],
)
def test_form_depends_on_the_stream_unless_it_is_given(
    form: str, stream: io.StringIO, is_json: bool
) -> None:
    with written_to(stream, level="info", form=form):  # type: ignore[arg-type]
        logging.getLogger("skerry.test").info("hello", extra={"peer": "ann"})
        logging.getLogger("skerry.test").debug("not shown")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("{") == is_json
    assert "hello" in line


def test_loggers_are_restored_afterwards() -> None:
    logger = logging.getLogger("skerry")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with written_to(io.StringIO(), level="debug", form="text"):
        assert logger.level == logging.DEBUG
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
