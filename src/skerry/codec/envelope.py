"""The unit that all parts of the system exchange: an update.

Listeners, carriages, the cache, the recorder and playback exchange updates, so each of them can be
built and tested without the others. The publisher encodes the payload and the subscriber decodes
it. All parts between them only forward it.
"""

from __future__ import annotations

from typing import Any, Final

CREATE: Final = 1
UPDATE: Final = 2
REMOVE: Final = 3
GAP: Final = 4
"""Recordings only: updates are missing here."""
SNAPSHOT: Final = 5
"""Recordings only: the object existed when the recording began."""

OPERATION_NAMES: Final = ("", "create", "update", "remove", "gap", "snapshot")

# The source of an update.
ACCESS: Final = "access"
DISTRIBUTOR: Final = "distributor"
LINK: Final = "link"
PORTAL: Final = "portal"
INTERNAL: Final = "internal"

_ATTRIBUTES: Final = (
    "fingerprint",
    "key",
    "node",
    "operation",
    "payload",
    "position",
    "present",
    "sender",
    "sent_ns",
    "sequence",
    "source",
    "space",
    "subject",
    "time_ns",
    "type_name",
)


class Update:
    """One change of one object. An update is not modified after it was created."""

    __slots__ = _ATTRIBUTES

    def __init__(
        self,
        *,
        type_name: str,
        subject: str,
        operation: int,
        present: int,
        key: bytes,
        payload: bytes,
        space: str = "local",
        fingerprint: int = 0,
        sender: int = 0,
        node: int = 0,
        sequence: int = 0,
        position: int = 0,
        sent_ns: int = -1,
        time_ns: int = 0,
        source: str = INTERNAL,
    ) -> None:
        self.type_name: str = type_name
        self.subject: str = subject
        self.operation: int = operation
        self.present: int = present
        """Property set of the update. A tag in it that is not in the payload becomes unset."""
        self.key: bytes = key
        """Canonical key."""
        self.payload: bytes = payload
        """CBOR map from tag to value."""
        self.space: str = space
        self.fingerprint: int = fingerprint
        """Fingerprint of the type, by which a reader distinguishes its definitions."""
        self.sender: int = sender
        """The client on `node` that published it."""
        self.node: int = node
        """The node that received it from its publisher."""
        self.sequence: int = sequence
        """Number of the update among the accepted updates of the sender."""
        self.position: int = position
        """Number among the accepted updates of the node, in the order in which its cache merged
        them."""
        self.sent_ns: int = sent_ns
        """Wall time of the publisher; -1 if the wire has none."""
        self.time_ns: int = time_ns
        """Wall time of `node` when it received the update."""
        self.source: str = source
        """The kind of connection by which `node` received it, such as `ACCESS`."""

    def replace(self, **changes: Any) -> Update:
        """A copy with some attributes changed."""
        facts = self.facts()
        facts.update(changes)
        return Update(**facts)

    def facts(self) -> dict[str, Any]:
        """All attributes by name."""
        return {name: getattr(self, name) for name in _ATTRIBUTES}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Update):
            return NotImplemented
        return self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash((self.type_name, self.key, self.payload, self.node, self.position))

    def __repr__(self) -> str:
        name = OPERATION_NAMES[self.operation]
        return f"Update({name} {self.subject}, {len(self.payload)} bytes, position {self.position})"

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_update, (self.facts(),)


def restore_update(facts: dict[str, Any]) -> Update:
    return Update(**facts)
