"""How much of the cache the objects of clients and addresses use, and how much they may use.

An object counts for the client that created it and for that client's address, as long as the object
exists. A part of the cache is reserved for trusted clients (`engine.admission.shared_quotas`).
"""

from __future__ import annotations

from mypy_extensions import i64

from skerry.engine.admission.shared_quotas import open_part
from skerry.errors import LimitExceeded
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX


class _Usage:
    """Count and bytes of the objects of one client or of one address."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.size: i64 = 0


class CacheQuotas:
    def __init__(self, object_count_max: int, bytes_max: int) -> None:
        self.object_count: i64 = 0
        self.payload_bytes: i64 = 0
        self.address_count_max: i64 = CACHE_OBJECT_COUNT_MAX
        self.address_bytes_max: i64 = CACHE_BYTES_MAX
        """What the objects of all clients of one address may use."""
        self.exempt_client: i64 = -1
        """A client whose objects are not limited: the node, which publishes an object for each
        client."""
        self._object_count_max: i64 = object_count_max
        self._bytes_max: i64 = bytes_max
        self._open_count_max: i64 = open_part(object_count_max)
        self._open_bytes_max: i64 = open_part(bytes_max)
        """What untrusted clients may use together."""
        self._by_client: dict[int, _Usage] = {}
        """By the client that created the objects."""
        self._by_address: dict[str, _Usage] = {}
        self._addresses: dict[int, str] = {}
        """The addresses of clients that are connected or created objects that exist."""
        self._connected: set[int] = set()
        self.trusted: set[int] = set()
        """Clients with an address that may use the reserve."""

    def set_address(self, client: int, address: str) -> None:
        self._addresses[client] = address
        self._connected.add(client)

    def client_left(self, client: int) -> None:
        """Forget a client that disconnected, except for the objects that it created."""
        self._connected.discard(client)
        self.trusted.discard(client)
        if client not in self._by_client:
            self._addresses.pop(client, None)

    def check(self, client: i64, count: i64, size: i64, count_max: i64, bytes_max: i64) -> None:
        """Raise LimitExceeded if a client or its address may not use so much more."""
        _check(self._by_client.get(int(client)), count, size, count_max, bytes_max, "client")
        address = self._addresses.get(int(client))
        if address is not None:
            usage = self._by_address.get(address)
            count_max, bytes_max = self.address_count_max, self.address_bytes_max
            _check(usage, count, size, count_max, bytes_max, "address")

    def change(self, client: i64, count: i64, size: i64) -> None:
        """Change what the objects of a client and of its address use."""
        number = int(client)
        usage = self._by_client.get(number)
        if usage is None:
            usage = self._by_client[number] = _Usage()
        usage.count += count
        usage.size += size
        address = self._addresses.get(number)
        if address is not None:
            self._change_address(address, count, size)
        if usage.count == 0:
            del self._by_client[number]
            if address is not None and number not in self._connected:
                del self._addresses[number]

    def make_room(self, count: i64, size: i64, sender: i64) -> None:
        """Add to what all clients use; raises LimitExceeded, without effect, past a limit."""
        object_count = self.object_count + count
        payload_bytes = self.payload_bytes + size
        if sender != self.exempt_client:
            if count > 0 and object_count > self._open_count_max:
                limit = self._limit(sender, self._open_count_max, self._object_count_max)
                _check_all("count of cached objects", object_count, limit)
            if size > 0 and payload_bytes > self._open_bytes_max:
                limit = self._limit(sender, self._open_bytes_max, self._bytes_max)
                _check_all("bytes of cached objects", payload_bytes, limit)
        self.object_count = object_count
        self.payload_bytes = payload_bytes

    def _change_address(self, address: str, count: i64, size: i64) -> None:
        usage = self._by_address.get(address)
        if usage is None:
            usage = self._by_address[address] = _Usage()
        usage.count += count
        usage.size += size
        if usage.count == 0:
            del self._by_address[address]

    def _limit(self, sender: i64, open_max: i64, value_max: i64) -> i64:
        """The limit for a sender, which has the reserve in it only for a trusted one."""
        is_stranger = int(sender) in self._connected and int(sender) not in self.trusted
        return open_max if is_stranger else value_max


def _check(
    usage: _Usage | None, count: i64, size: i64, count_max: i64, bytes_max: i64, whose: str
) -> None:
    is_new = count > 0
    if usage is not None:
        count += usage.count
        size += usage.size
    if is_new and count > count_max:
        what = f"count of objects of one {whose}"
        raise LimitExceeded(what=what, value=int(count), limit=int(count_max))
    if size > bytes_max:
        what = f"bytes of objects of one {whose}"
        raise LimitExceeded(what=what, value=int(size), limit=int(bytes_max))


def _check_all(what: str, value: i64, limit: i64) -> None:
    if value > limit:
        raise LimitExceeded(what=what, value=int(value), limit=int(limit))
