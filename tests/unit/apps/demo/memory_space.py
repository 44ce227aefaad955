"""A space in memory, for the parts of the demo that only publish."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from types import SimpleNamespace
from typing import Any

from skerry.objects.base import Struct, key_of, merge


class MemorySpace:
    """Keeps the current objects and calls its subscribers."""

    def __init__(self) -> None:
        self._objects: dict[type[Struct], dict[Any, Any]] = {}
        self._callbacks: dict[type[Struct], list[Callable[[Any], object]]] = {}

    def publish(self, what: Any, *, only: Iterable[str] | None = None) -> None:
        objects, key = self.container(type(what)), key_of(what)
        stored = objects.get(key)
        objects[key] = copy(what) if stored is None else merge(stored, what, only)
        self._notify("create" if stored is None else "update", objects[key])

    def remove(self, obj: Any) -> None:
        self._notify("remove", self.container(type(obj)).pop(key_of(obj)))

    def subscribe(self, cls: type[Struct], callback: Callable[[Any], object]) -> None:
        self._callbacks.setdefault(cls, []).append(callback)

    def container(self, cls: type[Struct]) -> dict[Any, Any]:
        return self._objects.setdefault(cls, {})

    def _notify(self, operation: str, obj: Struct) -> None:
        for callback in self._callbacks.get(type(obj), ()):
            callback(SimpleNamespace(operation=operation, object=obj))
