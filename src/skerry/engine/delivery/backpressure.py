"""Backpressure: the node stops reading from publishers while their subscribers catch up.

Without it, a publisher that is faster than its subscribers would get each of them disconnected,
though they read all the time. So when much is queued for a subscriber whose transport is full, the
node stops reading from the clients that add to the queue. TCP then blocks these publishers, and
their echoes are answered later. They are read again when the transport accepts data again.

Publishers wait only for a subscriber that makes progress. One whose transport does not accept data
within `hold_ns_max` is given up: publishers do not wait for it until it has read again
and some time has passed, and its queue grows until it is disconnected. So a stopped subscriber
delays a publisher by that time, once. A publisher that adds little never waits.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from skerry.engine.clients import Client
from skerry.protocol.machine import Address

BACKPRESSURE_BYTES: Final = 1024 * 1024
"""Bytes queued for a client whose transport is full, above which its publishers are not read from:
enough that a short pause delays no publisher, and far from the bound at which the client is
disconnected, since all publishers may have another read under way."""
BACKPRESSURE_SHARE_BYTES: Final = 32 * 1024
"""Bytes that one publisher may add to them before it has to wait: less than one read of a publisher
at full speed, and more than a publisher of occasional reports sends in a second."""
BACKPRESSURE_PENALTY: Final = 10
"""Publishers do not wait again for a client that did not read until this many times that wait have
passed. So a client that stops and resumes delays others for at most a tenth of the time."""


class _Behind:
    """A subscriber with a long queue, and the publishers that wait for it."""

    def __init__(self, client: Client, since_ns: int, mark: int) -> None:
        self.client = client
        self.since_ns = since_ns
        self.mark = mark
        self.size = 0
        """Bytes in its queue before the input that is being processed."""
        self.added: Counter[int] = Counter()
        """Bytes that each publisher added since."""
        self.publishers: dict[int, Client] = {}


class _GivenUp:
    """A subscriber for which no publisher waits, since it did not read in time."""

    def __init__(self, until_ns: int) -> None:
        self.until_ns = until_ns
        self.has_read = False
        """Whether it has read since."""


class Backpressure:
    def __init__(self, hold_s_max: float) -> None:
        """With a `hold_s_max` of 0 no publisher waits."""
        self._hold_ns_max = 0
        self._behind: dict[int, _Behind] = {}
        self._given_up: dict[int, _GivenUp] = {}
        self._held: dict[int, int] = {}
        """Publishers, with the count of subscribers that each waits for."""
        self.released: list[Address] = []
        """Clients that no longer wait for any subscriber; the node empties the list."""
        self.count = 0
        """How often a publisher had to wait."""
        self.is_active = False
        """Whether there is a subscriber to wait for."""
        self.renew(hold_s_max)

    def renew(self, hold_s_max: float) -> None:
        """Change the limit, for subscribers that fall behind from now on."""
        self._hold_ns_max = int(hold_s_max * 1e9)

    def fell_behind(self, client: Client, size: int, now_ns: int) -> None:
        """`size` bytes are queued for a client whose transport is full."""
        mark = min(BACKPRESSURE_BYTES, client.limits.waiting_bytes_max // 4)
        client_id = client.client_id
        if size <= mark or not self._hold_ns_max or _is_inside(client):
            return
        if client_id in self._behind:
            return
        given_up = self._given_up.get(client_id)
        if given_up is not None:
            if not given_up.has_read or now_ns < given_up.until_ns:
                return
            del self._given_up[client_id]
        self._behind[client_id] = _Behind(client, now_ns, mark)
        self.is_active = True

    def begin(self) -> None:
        """Call before the input of a client is processed."""
        for behind in self._behind.values():
            behind.size = behind.client.queue.size

    def end(self, publisher: Client) -> None:
        """Call after it: the client waits for the subscribers whose queues it has grown."""
        if _is_inside(publisher) or not publisher.is_present:
            return
        publisher_id = publisher.client_id
        for behind in self._behind.values():
            added = behind.client.queue.size - behind.size
            # A program that receives its own updates would never be read from again if it waited
            # for itself.
            if added <= 0 or behind.client is publisher or publisher_id in behind.publishers:
                continue
            behind.added[publisher_id] += added
            if behind.added[publisher_id] > min(BACKPRESSURE_SHARE_BYTES, behind.mark // 4):
                behind.publishers[publisher_id] = publisher
                self._hold(publisher)

    def caught_up(self, client: Client) -> None:
        """The transport of a client accepts data again."""
        given_up = self._given_up.get(client.client_id)
        if given_up is not None:
            given_up.has_read = True
        self._release(client.client_id)

    def forget(self, client: Client) -> None:
        """A client disconnected."""
        client_id = client.client_id
        self._given_up.pop(client_id, None)
        self._release(client_id)
        for behind in self._behind.values():
            behind.publishers.pop(client_id, None)
            behind.added.pop(client_id, None)
        self._held.pop(client_id, None)

    def advance(self, now_ns: int) -> None:
        """Give up subscribers whose transport did not accept data in time."""
        late = [
            client_id
            for client_id, behind in self._behind.items()
            if now_ns - behind.since_ns >= self._hold_ns_max
        ]
        for client_id in late:
            until_ns = now_ns + BACKPRESSURE_PENALTY * self._hold_ns_max
            self._given_up[client_id] = _GivenUp(until_ns)
            self._release(client_id)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        if not self.is_active:
            return None
        return min(behind.since_ns for behind in self._behind.values()) + self._hold_ns_max

    def is_held(self, client: Client) -> bool:
        """Whether the node must not read from a client."""
        return client.client_id in self._held

    def _hold(self, publisher: Client) -> None:
        held = self._held.get(publisher.client_id, 0)
        self._held[publisher.client_id] = held + 1
        if not held:
            self.count += 1

    def _release(self, client_id: int) -> None:
        behind = self._behind.pop(client_id, None)
        if behind is None:
            return
        self.is_active = bool(self._behind)
        for publisher_id, publisher in behind.publishers.items():
            self._held[publisher_id] -= 1
            if not self._held[publisher_id]:
                del self._held[publisher_id]
                self.released.append(publisher.address)


def _is_inside(client: Client) -> bool:
    """Whether a client is part of the node's own process, which has other bounds."""
    return client.origin.kind == "inside"
