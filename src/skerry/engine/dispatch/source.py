"""The source of updates: a client of this node, or one of another node.

An update from another node takes the same path as one of a client. Permissions and quotas were
applied where it entered the system, so a source of another node has no limits of its own.
"""

from __future__ import annotations

from mypy_extensions import i64

from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX, PAYLOAD_BYTES_MAX


class Source:
    """What the dispatcher needs to know about a publisher."""

    def __init__(self, client_id: int) -> None:
        self.client_id: i64 = client_id
        """The id under which the clients of this node receive its updates."""
        self.has_subjects: bool = False
        """Whether its headers may name a subject."""
        self.sequence: i64 = 0
        """Updates of it that were accepted."""
        self.stored_number: i64 = 0
        """Number of its last change in the journal; 0 if there is none."""
        self.published: dict[str, None] = {}
        """Names of all types that it published, in the order of their first object."""
        self.object_count_max: i64 = CACHE_OBJECT_COUNT_MAX
        self.object_bytes_max: i64 = CACHE_BYTES_MAX
        """What the objects that it created may use of the cache."""
        self.update_bytes_max: i64 = PAYLOAD_BYTES_MAX
        """The limit for one published object."""
        self.doubtful_types: set[str] | None = None
        """Types for which its own definition is not part of the served one: each of its updates is
        checked."""

    def note_published(self, type_name: str) -> None:
        """Note the first update of a type."""
        self.published[type_name] = None
