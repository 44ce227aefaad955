"""A program for tests: a handler, before and after its route to the node is blocked.

It runs in a network namespace of its own, since it tells the packet filter to drop what the node
sends to the one who answers. The node has a request under way to it then, which is sent again and
again. Another program is the standby.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from functools import partial
from time import monotonic
from typing import Any

import skerry
import skerry.aio
from skerry.engine.node import NodeCore
from skerry.errors import RequestError
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.loops import run_loop
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer

_TYPES = skerry.define_types(
    "struct Question [cached=false] { 1: uint32 number; }"
    "struct Answer [cached=false] { 1: string name; }"
)
_CUT = """
table inet cut {
    chain incoming {
        type filter hook input priority 0;
        ip saddr %s drop
    }
}
"""
_FAR = "127.0.0.2"
"""Where the one comes in whose way is cut."""
_PATIENCE_S = 20.0
"""Less than the system takes to notice anything by itself."""


async def main(nft: str, silence_s_max: float) -> dict[str, Any]:
    core = NodeCore(wall_offset_ns=wall_ns() - monotonic_ns())
    server = NodeServer(core, silence_s_max=silence_s_max)
    near = await server.listen(parse_endpoint("tcp://127.0.0.1:0"))
    far = await server.listen(parse_endpoint(f"tcp://{_FAR}:0"))
    try:
        async with (
            await skerry.aio.connect(near, name="asker") as asker,
            await skerry.aio.connect(far, name="first") as first,
            await skerry.aio.connect(near, name="second") as second,
        ):
            for space, name in ((first, "first"), (second, "second")):
                answer = _TYPES.Answer(name=name)
                await space.serve(_TYPES.Question, partial(_give, answer), standby=True)
            before = await _answered(asker, 5.0)
            _cut(nft)
            began_s = monotonic()
            after = None
            while after is None and monotonic() - began_s < _PATIENCE_S:
                after = await _answered(asker, 0.3)
            return {"before": before, "after": after}
    finally:
        await server.close()


def _give(answer: skerry.Struct, _question: skerry.Struct) -> skerry.Struct:
    return answer


def _cut(nft: str) -> None:
    subprocess.run([nft, "-f", "-"], input=_CUT % _FAR, text=True, check=True)


async def _answered(asker: Any, timeout_s: float) -> str | None:
    try:
        return str((await asker.request(_TYPES.Question(number=1), timeout=timeout_s)).name)
    except RequestError:
        return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nft", required=True)
    parser.add_argument("--silence-s-max", type=float, required=True)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), required=True)
    given = parser.parse_args()
    print(json.dumps(run_loop(main(given.nft, given.silence_s_max), given.loop)))
