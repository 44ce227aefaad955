"""The HTTP pages of a portal: metrics, status and health."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from skerry.apps.portal.service import PortalService
from skerry.observe.metrics import CONTENT_TYPE, scrape
from skerry.observe.portal_metrics import portal_registry
from skerry.runtime.health import Page


def portal_pages(service: PortalService) -> dict[str, Callable[[], Page]]:
    """Pages by path. The portal is ready if its router works and the hold is released."""
    registry = portal_registry(service.statistics)
    return {
        "/healthz": lambda: Page(body=b"ok\n"),
        "/metrics": lambda: Page(body=scrape(registry), content_type=CONTENT_TYPE),
        "/readyz": lambda: _ready(service),
        "/status.json": lambda: _status(service),
    }


def _ready(service: PortalService) -> Page:
    missing = service.broker.manager.statistics().missing
    fault = service.trouble or (f"the hold waits for {', '.join(missing)}" if missing else "")
    if fault:
        return Page(status=503, body=f"{fault}\n".encode())
    return Page(body=b"ready\n")


def _status(service: PortalService) -> Page:
    manager = service.broker.manager
    clients = [{"name": name, "pid": pid} for name, pid in manager.clients()]
    status = asdict(service.statistics()) | {
        "missing": manager.statistics().missing,
        "known_clients": clients,
    }
    return Page(body=f"{json.dumps(status)}\n".encode(), content_type="application/json")
