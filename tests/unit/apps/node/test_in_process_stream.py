"""The stream of a client inside the node's program."""

from __future__ import annotations

import asyncio
from typing import Any

from skerry.apps.node.in_process_stream import InProcessStream
from skerry.protocol.machine import Address


class Stage:
    """Owner and server in one; it records all calls."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def data_written(self, stream: InProcessStream) -> None:
        self.messages.append(("said", b"".join(stream.waiting)))

    def stream_closed(self, stream: InProcessStream) -> None:
        self.messages.append("ended")

    def lost(self, address: Address, stream: InProcessStream) -> None:
        self.messages.append(("lost", address))


def test_written_data_waits_for_the_owner() -> None:
    stage: Any = Stage()
    stream = InProcessStream(stage, stage)
    stream.write(b"a")
    stream.write(b"b")
    assert stage.messages == [("said", b"a"), ("said", b"ab")]


def test_close_notifies_the_owner_once_and_then_the_server() -> None:
    async def play() -> list[Any]:
        stage: Any = Stage()
        stream = InProcessStream(stage, stage)
        stream.address = Address("inside", 1)
        stream.close()
        stream.abort()
        assert stream.is_closing()
        before = list(stage.messages)
        await asyncio.sleep(0)
        return [*before, "later", *stage.messages[len(before) :]]

    assert asyncio.run(play()) == ["ended", "later", ("lost", Address("inside", 1))]
