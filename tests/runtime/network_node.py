"""A program for tests: a node of a system, told what to do by lines of JSON on its input.

Each line is answered by one line. The program ends with its input. Its messages have a number each,
and it checks that those of every other node arrive in order and without gaps.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from typing import Any

from skerry.engine.system.config import Rejoin
from skerry.engine.system.events import Rejoining
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import PeerStatistics
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.entities import Channel
from skerry.protocol.sealing.group_keys import GroupKey, KeyRing
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.udp.system_addresses import default_group, split_address
from tests.runtime.system_nodes import SystemNode

_WRONG_COUNT_MAX = 5
_WHISPER = b"unicast"


def main() -> None:
    """Run until the input ends."""
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    asyncio.run(Program(json.loads(sys.argv[1])).run())


class Program:
    """The node, and what it has received."""

    def __init__(self, given: dict[str, Any]) -> None:
        fields: dict[str, Any] = {"rejoin": Rejoin(given.get("rejoin", "manual"))}
        if "secret" in given:
            key = GroupKey(key_id=1, secret=bytes.fromhex(given["secret"]))
            fields["keys"] = KeyRing([key])
        if "id" in given:
            fields["node_id"] = given["id"]
        if "alone_s" in given:
            fields["alone_timeout_ns"] = round(given["alone_s"] * 1e9)
        seeds = [Address(*split_address(one, key="seeds")) for one in given.get("seeds", ())]
        if not seeds:
            is_v6 = "[" in given["address"]
            group = default_group(1, 77, Channel.CONTROL, is_v6=is_v6)
            fields["seed_groups"] = (Address(*split_address(group, key="group")),)
        self.node = SystemNode(
            given["name"],
            NodeTypes([NodeType(**one) for one in given["types"]]),
            type_name=given.get("type", ""),
            address=given["address"],
            data=given.get("data", ""),
            seeds=seeds,
            network=given.get("network"),
            link=LinkConfig(**given.get("link", {})),
            **fields,
        )
        self.node.on_message = self._received
        self.received: dict[str, int] = {}
        self.wrong: list[str] = []
        self.published_count = 0
        self.slow_s = 0.0
        """How long each message of another node blocks this one."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await self.node.runtime.start()
        reader = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            given = json.loads(line)
            answer = await getattr(self, given.pop("action"))(**given)
            sys.stdout.write(json.dumps(answer or {}) + "\n")
            sys.stdout.flush()

    # -- actions

    async def status(self) -> dict[str, Any]:
        node, machine = self.node, self.node.runtime.machine
        found = machine.statistics()
        sockets = node.runtime.statistics()
        return {
            "node": node.node,
            "alive": sorted(node.alive()),
            "digest": node.digest(),
            "elected": machine.picture.election.elected_id,
            "incarnation": machine.picture.membership.incarnation_id,
            "deaths": node.deaths(),
            "left": [one.reason for one in node.left()],
            "rejoined": sum(isinstance(one, Rejoining) for one in node.events),
            "received": self.received,
            "wrong": self.wrong,
            "published": self.published_count,
            "known": found.discovery.known_count,
            "indexes": [peer.index for peer in machine.control.peers.values()],
            "refusals": found.discovery.refusal_sent_count,
            "drops": dict(found.control.drops),
            "data_drops": dict(found.data.drops),
            "control_peers": [_peer(one) for one in found.control.peers],
            "data_peers": [_peer(one) for one in found.data.peers],
            "addresses": {
                one.name: str(one.control) for one in (machine.state.nodes if machine.state else ())
            },
            "reopened": sockets.reopened_count,
            "rejoined_groups": sockets.rejoined_count,
            "kernel_drops": sockets.kernel_drop_count,
            "guarded_bytes": sockets.guarded_bytes,
        }

    async def publish(self, count: int, size: int) -> None:
        task = asyncio.get_running_loop().create_task(self._publish(count, size))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def whisper(self, to: int) -> None:
        """Begin to send to one node on both channels what it ignores."""
        task = asyncio.get_running_loop().create_task(self._whisper(to))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def slow(self, seconds: float) -> None:
        self.slow_s = seconds

    async def stop(self) -> None:
        await self.node.runtime.close()

    # -- inside

    async def _publish(self, count: int, size: int) -> None:
        name = self.node.name.encode()
        for _ in range(count):
            text = b"%b %d " % (name, self.published_count)
            await self.node.publish(text.ljust(size, b"."))
            self.published_count += 1

    async def _whisper(self, to: int) -> None:
        runtime = self.node.runtime
        while True:
            for link in (runtime.machine.control, runtime.machine.data):
                link.send_to(to, 1, _WHISPER, monotonic_ns())
            runtime.wake()
            await asyncio.sleep(0.05)

    def _received(self, _node: int, data: bytes) -> None:
        if data == _WHISPER:
            return
        name, number, _ = data.decode().split(" ", 2)
        expected = self.received.get(name, 0)
        if int(number) != expected and len(self.wrong) < _WRONG_COUNT_MAX:
            self.wrong.append(f"{name} {number} instead of {expected}")
        self.received[name] = expected + 1
        if self.slow_s:
            time.sleep(self.slow_s)


def _peer(row: PeerStatistics) -> dict[str, Any]:
    return {
        "node": row.node,
        "lag_ns": row.lag_ns,
        "duplicates": row.duplicate_count,
        "retransmissions": row.retransmission_count,
        "has_multicast": row.multicast_ns is not None,
    }


if __name__ == "__main__":
    main()
