"""Log lines: text for people on a terminal, JSON elsewhere, and warnings not too often.

A record has a fixed message and its facts as fields: `log.info("link up", extra={"peer": peer})`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from skerry.limits import LOG_REPEAT_COUNT_MAX
from skerry.plain import plain, visible

__all__ = [
    "LEVELS",
    "Form",
    "JsonFormatter",
    "Level",
    "RepeatFilter",
    "TextFormatter",
    "written_to",
]

Form = Literal["auto", "text", "json"]
Level = Literal["debug", "info", "warning", "error"]

LEVELS: Final[dict[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_REPEAT_S: Final = 10.0
"""How long a warning is not shown again after it was."""
_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has; all else in it is a fact."""


@contextmanager
def written_to(stream: TextIO, *, level: Level, form: Form) -> Iterator[logging.Handler]:
    """Inside, everything below `skerry` is written to `stream`."""
    is_text = form == "text" or (form == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if is_text else JsonFormatter())
    handler.addFilter(RepeatFilter())
    logger = logging.getLogger("skerry")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(LEVELS[level])
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class TextFormatter(logging.Formatter):
    """One line for people: time, level, message, facts."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and after it where an error came from."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        facts = "".join(f" {name}={_shown(value)}" for name, value in _facts(record).items())
        line = f"{time} {record.levelname.lower():7} {visible(record.getMessage())}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the facts by their names."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. A fact that has the name of one of ours gets an underscore behind it."""
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
        # In ASCII: who collects lines need not know in which encoding they are.
        return json.dumps(row, default=plain)


class RepeatFilter(logging.Filter):
    """Lets a warning pass, and the same again only after a while, with the count in between.

    The same is what has the same message, whatever its facts are: a flood comes from many sources.
    """

    def __init__(
        self, *, repeat_s: float = _REPEAT_S, count_max: int = LOG_REPEAT_COUNT_MAX
    ) -> None:
        super().__init__()
        self._repeat_s = repeat_s
        self._count_max = count_max
        self._shown_s: dict[tuple[str, str], float] = {}
        self._kept_back: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show it. One that is shown tells how many were not (`repeated`)."""
        if record.levelno < logging.WARNING:
            return True
        which = (record.name, str(record.msg))
        shown_s = self._shown_s.get(which)
        if shown_s is not None and 0 <= record.created - shown_s < self._repeat_s:
            self._kept_back[which] = self._kept_back.get(which, 0) + 1
            return False
        if shown_s is None and len(self._shown_s) >= self._count_max:
            oldest = next(iter(self._shown_s))
            del self._shown_s[oldest]
            self._kept_back.pop(oldest, None)
        # Put at the end, so that the first is always the oldest.
        self._shown_s.pop(which, None)
        self._shown_s[which] = record.created
        if count := self._kept_back.pop(which, 0):
            record.repeated = count
        return True

    def kept_back_count(self) -> int:
        """Warnings that were not shown and of which nothing was told yet."""
        return sum(self._kept_back.values())


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _OWN}


def _shown(value: object) -> str:
    """A fact in a line of text: quoted where it could be taken for more than one."""
    text = visible(str(plain(value)) if isinstance(value, bytes) else str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
