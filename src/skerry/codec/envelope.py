"""The one unit of everything that moves: an update.

Doors, carriers, the cache, the recorder and replay hand updates to each other, so each of them
can be built and tested without the others. The payload was encoded by the publisher and is
decoded by the subscriber; whatever lies between only carries it.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "ACCESS",
    "CREATE",
    "DISTRIBUTOR",
    "GAP",
    "INTERNAL",
    "LINK",
    "OPERATION_NAMES",
    "PORTAL",
    "REMOVE",
    "SNAPSHOT",
    "UPDATE",
    "Update",
    "restore_update",
]

CREATE: Final = 1
UPDATE: Final = 2
REMOVE: Final = 3
GAP: Final = 4
"""Recordings only: updates are missing here."""
SNAPSHOT: Final = 5
"""Recordings only: the object was there when recording began."""

OPERATION_NAMES: Final = ("", "create", "update", "remove", "gap", "snapshot")

# Where an update came in.
ACCESS: Final = "access"
DISTRIBUTOR: Final = "distributor"
PORTAL: Final = "portal"
LINK: Final = "link"
INTERNAL: Final = "internal"


class Update:
    """One change of one object, as it travels. Not changed once made."""

    __slots__ = (
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
        """Property set the publisher speaks of: in it but not in the payload means cleared."""
        self.key: bytes = key
        """Canonical key."""
        self.payload: bytes = payload
        """CBOR map from tag to value."""
        self.space: str = space
        self.fingerprint: int = fingerprint
        """Of the type, so that a reader knows which of two definitions was meant."""
        self.sender: int = sender
        """The client on `node` that published it."""
        self.node: int = node
        """Where it entered the system."""
        self.sequence: int = sequence
        """Count of the sender's accepted updates."""
        self.position: int = position
        """Count of the node's accepted updates: the order in which its cache merged them."""
        self.sent_ns: int = sent_ns
        """Wall time of the publisher; -1 where the wire has none."""
        self.time_ns: int = time_ns
        """Wall time of the node where it entered."""
        self.source: str = source
        """By which door or carrier it entered."""

    def replace(self, **changes: Any) -> Update:
        """The same update with some facts changed."""
        facts = self.facts()
        facts.update(changes)
        return Update(**facts)

    def facts(self) -> dict[str, Any]:
        """All facts by name."""
        return {
            "type_name": self.type_name,
            "subject": self.subject,
            "operation": self.operation,
            "present": self.present,
            "key": self.key,
            "payload": self.payload,
            "space": self.space,
            "fingerprint": self.fingerprint,
            "sender": self.sender,
            "node": self.node,
            "sequence": self.sequence,
            "position": self.position,
            "sent_ns": self.sent_ns,
            "time_ns": self.time_ns,
            "source": self.source,
        }

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
    """The update with these facts: how a pickled one comes back."""
    return Update(**facts)
