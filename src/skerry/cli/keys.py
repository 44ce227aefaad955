"""Keys of a terminal, read without waiting for a line."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_WAIT_S: Final = 0.1
"""Interval at which the end is polled while no key is pressed."""


def has_keys() -> bool:
    """Whether keys can be read and shown: standard input and stderr are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def key_presses(act: Callable[[str], object]) -> Iterator[None]:
    """Call `act` with each key that is pressed, on a thread of its own."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            readable, _, _ = select.select([number], [], [], _WAIT_S)
            if readable:
                data = os.read(number, 64)
                if not data:
                    return
                for key in data.decode(errors="replace"):
                    act(key)

    tty.setcbreak(number)
    reader = threading.Thread(target=read, name="keys", daemon=True)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()
        termios.tcsetattr(number, termios.TCSADRAIN, before)
