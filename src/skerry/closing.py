"""The base of objects that a `with` statement closes."""

from __future__ import annotations

from typing import Self


class Closing:
    """A context manager that calls `close` at its end."""

    __slots__ = ()

    def close(self) -> None:
        """Close it; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
