"""What the spaces have alike when they publish."""

from __future__ import annotations

from time import time
from typing import Any

import pytest

from skerry.client.api.publishing import Publishing
from skerry.client.core.send_buffer import SendBuffer, SendPlan
from skerry.errors import LocalProtocolError
from skerry.objects.base import codec_of
from skerry.protocol.access.header import read_header
from tests.unit.client.stage import Vessel


def test_objects_go_into_the_buffer_with_the_time_of_day() -> None:
    buffer, woken = SendBuffer(10_000, None), []
    buffer.is_short = True
    buffer.plans[Vessel] = SendPlan(codec_of(Vessel), True)
    publishing = Publishing(buffer, pytest.fail, lambda: woken.append(1))
    before = time()
    publishing.publish(Vessel(mmsi=1))
    publishing.publish(Vessel(mmsi=2))
    header, _ = read_header(buffer.waiting.frames.take(), 5)
    assert before <= header.sent_time <= time()
    assert woken == [1], "whoever writes was told once"
    assert buffer.added_count == 2


def test_what_is_wrong_is_said_by_who_publishes_the_unusual() -> None:
    def first(what: Any, *_: Any) -> bool:
        raise LocalProtocolError(f"not {what}")

    publishing = Publishing(SendBuffer(10_000, None), first, pytest.fail)
    with pytest.raises(LocalProtocolError, match="not 5"):
        publishing.publish(5)  # type: ignore[call-overload]
