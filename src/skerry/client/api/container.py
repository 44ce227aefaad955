"""A live mapping of the current objects of a type."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skerry.client.core.events import ObjectInfo, info_of
from skerry.client.core.keys import Keys
from skerry.client.core.node_subscription import NodeSubscription
from skerry.client.core.received_types import ReceivedType
from skerry.codec.hot_loops import ObjectState
from skerry.objects import tables
from skerry.objects.base import Struct

if TYPE_CHECKING:
    import polars as pl

S = TypeVar("S", bound=Struct)
Events = TypeVar("Events")


class Container(Mapping[Any, S], Generic[S, Events]):
    """The current objects of a type, by key.

    A key is the value of the key field; for several key fields the tuple of their values, in the
    order in which the type declares them; for a singleton `()`. An object with the same key can be
    used as a key too. Each access returns a new object, so changes of it do not change the
    container.
    """

    def __init__(
        self,
        subscription: NodeSubscription,
        shape: ReceivedType,
        *,
        events: Callable[[], Events],
        release: Callable[[], None],
    ) -> None:
        assert subscription.route is not None
        assert subscription.route.store is not None
        self._subscription = subscription
        self._shape = shape
        self._objects = subscription.route.store.objects
        self._keys = Keys(shape)
        self._make_events = events
        self._release = release
        self._events: Events | None = None
        self._is_open = True

    @property
    def is_complete(self) -> bool:
        """Whether the container has all objects that the node had when it was opened."""
        return self._subscription.is_complete

    @property
    def events(self) -> Events:
        """An iterator over the current objects and then all changes. Always the same iterator."""
        if self._events is None:
            self._events = self._make_events()
        return self._events

    def info(self, key: Any) -> ObjectInfo:
        """Which client created an object and which changed it last; KeyError if there is none."""
        return info_of(self._entry(key))

    def close(self) -> None:
        """Empty the container, and end its updates."""
        if self._is_open:
            self._is_open = False
            self._objects = {}
            self._release()

    def __getitem__(self, key: Any) -> S:
        return self._shape.decode(self._entry(key).payload)  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        try:
            self._entry(key)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.snapshot())

    def __len__(self) -> int:
        return len(self._objects)

    def values(self) -> ValuesView[S]:
        """The objects, as they are when the iteration begins."""
        return _Values(self)

    def items(self) -> ItemsView[Any, S]:
        """Keys and objects, as they are when the iteration begins."""
        return _Items(self)

    def to_dict(self) -> dict[Any, dict[str, Any]]:
        """The set fields of each object by name, by key."""
        found: dict[Any, dict[str, Any]] = tables.to_dict(self)
        return found

    def to_arrow(self) -> Any:
        """The objects as an Arrow table, with a column for each field."""
        return tables.to_arrow(self, self._shape.cls)

    def to_pandas(self) -> Any:
        """The objects as a DataFrame of pandas."""
        return tables.to_pandas(self, self._shape.cls)

    def to_polars(self) -> pl.DataFrame:
        """The objects as a DataFrame of polars."""
        return tables.to_polars(self, self._shape.cls)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        count = len(self)
        title = f"{count} objects of {self._shape.name}"
        return tables.objects_html(title, self._shape.cls, self.values(), count)

    def __repr__(self) -> str:
        return f"<{len(self)} objects of {self._shape.name}>"

    def _entry(self, key: Any) -> ObjectState:
        found = self._objects.get(self._keys.canonical(key))
        if found is None:
            raise KeyError(key)
        return found

    def snapshot(self) -> list[tuple[Any, S]]:
        """A list of the current keys and objects, which may change during an iteration."""
        decode = self._shape.decode
        objects = [decode(entry.payload) for entry in list(self._objects.values())]
        return [(self._keys.value_of(obj), obj) for obj in objects]


class _Values(ValuesView[S]):
    _mapping: Container[S, Any]

    def __iter__(self) -> Iterator[S]:
        return iter([obj for _, obj in self._mapping.snapshot()])


class _Items(ItemsView[Any, S]):
    _mapping: Container[S, Any]

    def __iter__(self) -> Iterator[tuple[Any, S]]:
        return iter(self._mapping.snapshot())
