"""Nodes of a system on real sockets in one process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from skerry.protocol.node_types import NodeTypes
from tests.runtime.system_nodes import SystemNode, agree, multicast_type, until


async def _started(ending: AsyncExitStack, *nodes: SystemNode) -> None:
    for node in nodes:
        await node.runtime.start()
        ending.push_async_callback(node.runtime.close, notice=False)


def test_fs_01_three_nodes_find_each_other_and_form_one_picture() -> None:
    async def main() -> None:
        types = NodeTypes([multicast_type()])
        nodes = [SystemNode(name, types) for name in "abc"]
        async with AsyncExitStack() as ending:
            await _started(ending, *nodes)
            await until(lambda: agree(*nodes))
            await nodes[0].publish(b"1", b"2", b"x" * 10_000)
            expected = [(nodes[0].node, data) for data in (b"1", b"2", b"x" * 10_000)]
            for node in nodes[1:]:
                await until(partial(node.has_received, 3))
                assert node.received() == expected
            assert not nodes[0].received()

    asyncio.run(main())
