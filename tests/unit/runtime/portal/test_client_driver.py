"""The driver of a client whose portal is absent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.session import PortalSession
from skerry.protocol.portal.session_messages import ManagerSilent, SessionStatistics
from skerry.protocol.portal.session_states import SessionState
from skerry.protocol.portal.subscriptions import PortalMatch
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.portal.client_driver import PortalClientDriver


def test_a_client_without_a_portal_asks_again_and_can_be_closed(tmp_path: Path) -> None:
    events: list[MachineEvent] = []
    config = PortalClientConfig(
        socket_name=str(tmp_path / "p"), client_name="pilot", manager_timeout_s=0.1
    )

    def take(match: PortalMatch, frame: bytes, start: int) -> None:
        raise AssertionError("nobody publishes")

    async def run() -> None:
        session = PortalSession(config, process=1, thread=1, rng=Random(1), now_ns=monotonic_ns())
        silent = asyncio.Event()

        def note(found: object) -> None:
            events.extend(found)  # type: ignore[arg-type]
            silent.set()

        driver = PortalClientDriver(session, config, on_frame=take, on_events=note)
        session.publish(b"/g/CSTR/CSTR/1/1/\0kept")
        await silent.wait()
        assert session.statistics() == SessionStatistics(
            sent_count=0,
            received_count=0,
            malformed_count=0,
            dropped_count=0,
            waiting_count=1,
            lost_connections_count=0,
        )
        await driver.close(0.1)
        assert session.state is SessionState.CLOSED

    asyncio.run(run())
    assert events[0] == ManagerSilent(reason="the manager does not answer")
