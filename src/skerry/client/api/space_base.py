"""The operations that asyncio and blocking spaces share: all those that do not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time
from typing import TYPE_CHECKING, Any, overload

from skerry.client.api.subscription import check_callback
from skerry.client.core.states import Refusal, SpaceState, StateChanged
from skerry.client.io.session import Session
from skerry.codec.hot_loops import PublishPath
from skerry.errors import LocalProtocolError
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns
from skerry.schema.registry import Conflict


class SpaceBase(PublishPath):
    """One space of typed objects, shared with all clients of its node.

    `PublishPath` has the fast path of `publish`: it encodes an object whose class was published
    before directly into the send buffer. Anything else is passed to `_publish_first`.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session.core.buffer.waiting, self._publish_first, self._write_soon, time)
        self._session = session
        self._core = session.core
        self._connection = session.connection

    # -- publishing

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # narrower: what the path accepts depends on its user
        def publish(
            self, what: Struct, *, only: Iterable[str] | None = None, subject: str = ""
        ) -> None: ...
        @overload
        def publish(self, what: str, data: bytes, /) -> None: ...
        def publish(
            self, what: Any, data: Any = None, *, only: Any = None, subject: Any = ""
        ) -> None: ...

    def remove(self, obj: Struct, *, subject: str = "") -> None:
        """Remove the object that has this key."""
        if self._core.remove(obj, time(), subject):
            self._write_soon()

    def _publish_first(
        self, what: Struct | str, data: bytes | None, only: Iterable[str] | None, subject: str
    ) -> bool:
        """Publish an object of a new class, with `only`, or bytes under a new subject."""
        if not isinstance(what, str):
            if data is not None:
                raise LocalProtocolError("bytes are published under a subject, not with an object")
            return self._core.publish(what, time(), only, subject)
        if data is None:
            raise LocalProtocolError(f"there are no bytes to publish under {what:.60}")
        if subject:
            raise LocalProtocolError(f"bytes have one subject, not {what:.60} and {subject!s:.60}")
        if only is not None:
            raise LocalProtocolError(f"`only` names fields, and the bytes of {what:.60} have none")
        return self._core.publish_bytes(what, data, time())

    def _write_soon(self) -> None:
        """Make the loop write what was published."""
        raise NotImplementedError

    # -- the node

    @property
    def state(self) -> SpaceState:
        """The state of the connection to the node."""
        return self._connection.state

    @property
    def silence_s(self) -> float:
        """Seconds since anything was received from the node."""
        return (monotonic_ns() - self._connection.received_ns) / 1e9

    @property
    def client_id(self) -> int:
        """The client's number at the node."""
        return self._connection.client_id

    @property
    def node_name(self) -> str:
        """The node's own name."""
        return self._connection.server_name

    @property
    def has_additions(self) -> bool:
        """Whether the node has skerry's additions to DOTS: subjects, requests, the ledger."""
        return bool(self._connection.has_subjects)

    @property
    def types(self) -> Mapping[str, Any]:
        """The classes of all types that the space knows, by name."""
        return self._core.types.classes()

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Types of which the node serves a definition that is incompatible with the program's."""
        return self._core.types.conflicts

    def on_state(self, callback: Callable[[StateChanged], object]) -> None:
        """Call back when the connection is lost, restored, or closed for good."""
        check_callback(callback)
        self._session.state_listeners.append(callback)

    def on_refused(self, callback: Callable[[Refusal], object]) -> None:
        """Call back when the node refuses something that this space did."""
        check_callback(callback)
        self._session.refusal_listeners.append(callback)
