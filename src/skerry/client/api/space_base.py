"""What both faces of a space do alike: all that nobody has to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time
from typing import Any

from skerry.client.api.publishing import Publishing
from skerry.client.api.subscription import check_callback
from skerry.client.core.states import Refusal, SpaceState, StateChanged
from skerry.client.io.session import Session
from skerry.errors import LocalProtocolError
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns
from skerry.schema.registry import Conflict

__all__ = ["SpaceBase"]


class SpaceBase(Publishing):
    """One space of typed objects, shared with all clients of its node."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.core.buffer, self._publish_first, self._carry_soon)
        self._session = session
        self._core = session.core

    # -- publishing

    def remove(self, obj: Struct, *, subject: str = "") -> None:
        """Remove the object that has this key."""
        if self._core.remove(obj, time(), subject):
            self._carry_soon()

    def _publish_first(
        self, what: Struct | str, data: bytes | None, only: Iterable[str] | None, subject: str
    ) -> bool:
        """What is published for the first time, or in an unusual way."""
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

    def _carry_soon(self) -> None:
        """Let the loop send what waits."""
        raise NotImplementedError

    # -- the node

    @property
    def state(self) -> SpaceState:
        """How the space stands with its node."""
        return self._core.state

    @property
    def silence_s(self) -> float:
        """Seconds since anything was received from the node."""
        return (monotonic_ns() - self._core.heard_ns) / 1e9

    @property
    def client_id(self) -> int:
        """What the node calls us."""
        return self._core.client_id

    @property
    def node_name(self) -> str:
        """What the node calls itself."""
        return self._core.server_name

    @property
    def has_additions(self) -> bool:
        """Whether the node has skerry's additions to DOTS: subjects, requests, the ledger."""
        return self._core.has_additions

    @property
    def types(self) -> Mapping[str, Any]:
        """The classes of all types that are known here, by name."""
        return self._core.types.classes()

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Types of which the node serves a definition that is incompatible with the program's."""
        return self._core.types.conflicts

    def on_state(self, callback: Callable[[StateChanged], object]) -> None:
        """Be told when the connection is lost, is back, or ends for good."""
        check_callback(callback)
        self._session.state_listeners.append(callback)

    def on_refused(self, callback: Callable[[Refusal], object]) -> None:
        """Be told when the node does not permit something."""
        check_callback(callback)
        self._session.refusal_listeners.append(callback)
