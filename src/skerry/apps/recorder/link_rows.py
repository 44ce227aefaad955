"""Rows about link quality between senders and the recorder: objects of the type SkerryLink.

Each row covers the time since the previous one. Therefore the figures of a minute are the sum of
its rows, even if a program was restarted in it, and a lost row affects only its own interval.
"""

from __future__ import annotations

from typing import Final

from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.envelope import ACCESS, CREATE, INTERNAL, Update
from skerry.codec.pieces import canonical_key, split
from skerry.codec.subjects import default_subject
from skerry.objects.base import Struct, codec_of
from skerry.objects.internal import internal_class
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import LINK_TYPE

LINK_INTERVAL_NS: Final = 10_000_000_000
"""Interval between rows: several rows in each minute of the tables."""


class LinkRows:
    """Writes rows about links into a queue, at intervals."""

    def __init__(self, queue: RowQueue, *, space: str, is_wanted: bool = True) -> None:
        self._queue = queue
        self._space = space
        self._is_wanted = is_wanted
        self._due_ns = monotonic_ns() + LINK_INTERVAL_NS
        self._fingerprint = fingerprint(internal_class(LINK_TYPE).descriptor)

    def is_due(self) -> bool:
        """Whether the next rows are due; true once in each interval."""
        now_ns = monotonic_ns()
        if not self._is_wanted or now_ns < self._due_ns:
            return False
        self._due_ns = now_ns + LINK_INTERVAL_NS
        return True

    def write(self, link: Struct, *, sender: int, node: int) -> None:
        """Append the row of a SkerryLink about this sender at this node."""
        if not self._is_wanted:
            return
        codec = codec_of(type(link))
        payload = codec.encode_only(link, int(link.attributes))
        pieces = split(codec.plan, payload, 0)
        self._queue.rows.append_update(
            Update(
                type_name=LINK_TYPE,
                subject=default_subject(codec.plan, pieces),
                operation=CREATE,
                present=int(link.attributes),
                key=canonical_key(codec.plan, pieces),
                payload=payload,
                space=self._space,
                fingerprint=self._fingerprint,
                sender=sender,
                node=node,
                time_ns=wall_ns(),
                source=INTERNAL,
            )
        )


def round_trip(*, client_id: int, name: str, node: str, taken_ns: int) -> Struct:
    """The SkerryLink of a client that waited `taken_ns` for an answer of its node."""
    made: Struct = internal_class(LINK_TYPE)(
        sender=name,
        receiver=node,
        carrier=ACCESS,
        senderNumber=client_id,
        roundTrips=1,
        roundTripTime=taken_ns / 1e9,
    )
    return made
