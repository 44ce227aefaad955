"""Metrics and log lines of portals."""

from __future__ import annotations

import logging
from dataclasses import fields

import pytest

from skerry.observe.metrics import scrape
from skerry.observe.portal_log import log_portal_events
from skerry.observe.portal_metrics import PORTAL_METRICS, PortalCollector, portal_registry
from skerry.protocol.portal.portal_manager import HoldReleased, PortalClientSeen, RequestMalformed
from skerry.protocol.portal.session_messages import (
    ManagerSilent,
    PortalLost,
    PortalOpened,
    PublicationsDropped,
    SubscriptionsSettled,
)
from skerry.protocol.portal.statistics import PortalStatistics

NOW = PortalStatistics(
    **{field.name: number for number, field in enumerate(fields(PortalStatistics), 1)}
)


def test_each_counter_has_a_metric() -> None:
    text = scrape(portal_registry(lambda: NOW)).decode()
    assert "skerry_portal_publishers 1.0" in text
    for name in PORTAL_METRICS:
        assert f"\n{name} " in text


def test_a_program_without_a_portal_has_no_metrics_of_one() -> None:
    assert list(PortalCollector(lambda: None).collect()) == []
    assert len(list(PortalCollector(lambda: NOW).collect())) == len(PORTAL_METRICS)


def test_events_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log_portal_events(
        [
            PortalClientSeen(client_name="pilot", client_pid=5),
            RequestMalformed(detail="why"),
            HoldReleased(),
            PortalOpened(is_first=True),
            PortalOpened(is_first=False),
            PortalLost(reason="why"),
            ManagerSilent(reason="why"),
            PublicationsDropped(waiting_count=7),
            SubscriptionsSettled(number=1),
        ]
    )
    levels = [record.levelname for record in caplog.records]
    assert levels == [
        "DEBUG",
        "WARNING",
        "INFO",
        "DEBUG",
        "INFO",
        "WARNING",
        "WARNING",
        "WARNING",
        "DEBUG",
    ]
