"""What can be closed and is used in a `with`, which closes it at the end."""

from __future__ import annotations

from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing:
    """Gives itself to a `with`, and is closed when that ends."""

    __slots__ = ()

    def close(self) -> None:
        """End it; to do so twice does no harm."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
