"""The public face of the asyncio twins."""

from __future__ import annotations

import asyncio
import importlib.util

from skerry import aio
from skerry.client.api.aio import AsyncSpace, AsyncSubscription, Container, connect


def test_the_twins_are_those_of_the_client() -> None:
    assert aio.connect is connect
    assert aio.Space is AsyncSpace
    assert aio.Container is Container
    assert aio.Subscription is AsyncSubscription


def test_a_program_runs_on_the_fastest_loop_there_is() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    is_there = importlib.util.find_spec("uvloop") is not None
    assert aio.run(main()) == ("uvloop" if is_there else "asyncio")
