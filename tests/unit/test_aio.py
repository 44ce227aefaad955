"""The public face of the asyncio twins."""

from __future__ import annotations

from skerry import aio
from skerry.client.aio import Container, Space, Subscription, connect


def test_the_twins_are_those_of_the_client() -> None:
    assert aio.connect is connect
    assert aio.Space is Space
    assert aio.Container is Container
    assert aio.Subscription is Subscription
