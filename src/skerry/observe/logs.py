"""Log lines: text on a terminal, JSON elsewhere, with a rate limit for repeated warnings.

A record has a fixed message and its facts as fields: `log.info("link up", extra={"peer": peer})`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from skerry.json_values import plain, visible

LOG_REPEAT_COUNT_MAX: Final = 1000
"""Messages, addresses and sources of warnings that are watched for repetitions. Beyond it the
oldest is forgotten, and logged again when it repeats."""
LOG_LINES_PER_HOST_MAX: Final = 20
"""Warnings of one message about one address in ten seconds. The clients of one address may be many
programs, and each disconnection deserves a line, but an attacker may connect again and again."""
LOG_LINES_PER_MESSAGE_MAX: Final = 200
"""Warnings of one message in ten seconds, because an attacker may have many addresses."""

Form = Literal["auto", "text", "json"]
Level = Literal["debug", "info", "warning", "error"]

LEVELS: Final[dict[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_REPEAT_S: Final = 10.0
"""Period in which the number of equal warnings is limited."""
_SOURCES: Final = (
    *("client_id", "peer", "sender", "type_name", "what", "reason", "group", "file"),
    *("id", "seed", "address", "destination"),
)
"""Facts that identify the subject of a warning, besides the address."""
_SOURCE_CHAR_COUNT_MAX: Final = 100
_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes of every record; all others are facts."""


@contextmanager
def written_to(stream: TextIO, *, level: Level, form: Form) -> Iterator[logging.Handler]:
    """Write all loggers below `skerry` to `stream`."""
    is_text = form == "text" or (form == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if is_text else JsonFormatter())
    repeats = RepeatFilter()
    handler.addFilter(repeats)
    logger = logging.getLogger("skerry")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(LEVELS[level])
    logger.propagate = False
    try:
        yield handler
    finally:
        if count := repeats.suppressed_count():
            logger.warning("repeated warnings were not shown", extra={"count": count})
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class TextFormatter(logging.Formatter):
    """One line of text: time, level, message, facts."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, followed by the traceback of an exception."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        facts = "".join(f" {name}={_shown(value)}" for name, value in _facts(record).items())
        line = f"{time} {record.levelname.lower():7} {visible(record.getMessage())}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the facts by their names."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. A fact with the name of a standard field gets an underscore at the end."""
        row: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _facts(record).items():
            row[f"{name}_" if name in row else name] = value
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        # In ASCII, so that log collectors do not need to know the encoding.
        return json.dumps(row, default=plain)


class RepeatFilter(logging.Filter):
    """Limits repeated warnings, and counts the suppressed ones.

    Warnings of one message are counted by their source as well: by the address (`host`) and by the
    client, sender, type or file concerned. In each period, one line is shown per source, a few per
    address, and a limited number per message. So neither a flood from one address nor one from many
    addresses hides other warnings or fills the log.
    """

    def __init__(
        self,
        *,
        repeat_s: float = _REPEAT_S,
        count_max: int = LOG_REPEAT_COUNT_MAX,
    ) -> None:
        super().__init__()
        self._repeat_s = repeat_s
        self._count_max = count_max
        self._periods: dict[tuple[str, ...], _Period] = {}
        """Periods of messages, addresses and sources, the oldest first."""
        self._forgotten_count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show a record; its field `repeated` is the number of suppressed ones."""
        if record.levelno < logging.WARNING:
            return True
        message = (record.name, str(record.msg))
        host = (*message, _source(record, "host"))
        source = (*host, *(_source(record, name) for name in _SOURCES))
        periods: list[_Period] = []
        # For a message that is already suppressed, its sources are not remembered.
        for key, limit in (
            (message, LOG_LINES_PER_MESSAGE_MAX),
            (host, LOG_LINES_PER_HOST_MAX),
            (source, 1),
        ):
            period = self._period(key, record.created)
            if period.shown_count >= limit:
                period.suppressed_count += 1
                return False
            periods.append(period)
        repeated = 0
        for period in periods:
            period.shown_count += 1
            repeated += period.suppressed_count
            period.suppressed_count = 0
        if repeated:
            record.repeated = repeated
        return True

    def suppressed_count(self) -> int:
        """Suppressed warnings that no line has reported yet."""
        waiting = sum(period.suppressed_count for period in self._periods.values())
        return waiting + self._forgotten_count

    def _period(self, key: tuple[str, ...], now_s: float) -> _Period:
        period = self._periods.get(key)
        if period is not None and 0 <= now_s - period.began_s < self._repeat_s:
            return period
        suppressed_count = 0
        if period is not None:
            # Moved to the end, so that the first is always the oldest.
            del self._periods[key]
            suppressed_count = period.suppressed_count
        elif len(self._periods) >= self._count_max:
            oldest = self._periods.pop(next(iter(self._periods)))
            self._forgotten_count += oldest.suppressed_count
        period = self._periods[key] = _Period(now_s, suppressed_count)
        return period


class _Period:
    """A period in which the number of lines of one kind is limited."""

    __slots__ = ("began_s", "shown_count", "suppressed_count")

    def __init__(self, began_s: float, suppressed_count: int) -> None:
        self.began_s = began_s
        self.shown_count = 0
        self.suppressed_count = suppressed_count


def _source(record: logging.LogRecord, name: str) -> str:
    return str(record.__dict__.get(name, ""))[:_SOURCE_CHAR_COUNT_MAX]


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _OWN}


def _shown(value: object) -> str:
    """A fact in a line of text, quoted if it is empty or contains spaces."""
    text = visible(str(plain(value)) if isinstance(value, bytes) else str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
