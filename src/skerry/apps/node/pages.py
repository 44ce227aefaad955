"""The HTTP pages of a node: metrics, status and health."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields

from skerry.durations import Durations
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.engine.node import NodeCore
from skerry.engine.system.events import MemberStatistics
from skerry.json_values import plain
from skerry.protocol.portal.statistics import PortalStatistics
from skerry.runtime.health import Page


def node_pages(
    core: NodeCore,
    faults: Callable[[], list[str]],
    group: Callable[[], GroupStatistics | None] = lambda: None,
    member: Callable[[], MemberStatistics | None] = lambda: None,
    portal: Callable[[], PortalStatistics | None] = lambda: None,
    turns: Callable[[], Durations] = Durations,
) -> dict[str, Callable[[], Page]]:
    """Pages by path. `faults` lists why the node is not ready; it is ready if the list is empty.

    `group` returns the statistics of the node's multicast group, `member` those of the node in its
    system, and `portal` those of its portal, or None. `turns` returns how long the node took for
    its input.
    """
    return {
        "/healthz": lambda: Page(body=b"ok\n"),
        "/metrics": _metrics_page(core, group, member, portal, turns),
        "/readyz": lambda: _ready(faults()),
        "/status.json": lambda: _status(core, group, member, portal),
    }


def _metrics_page(
    core: NodeCore,
    group: Callable[[], GroupStatistics | None],
    member: Callable[[], MemberStatistics | None],
    portal: Callable[[], PortalStatistics | None],
    turns: Callable[[], Durations],
) -> Callable[[], Page]:
    # Imported here: a node without metrics does not need the library.
    from skerry.observe.metrics import CONTENT_TYPE, node_registry, scrape

    registry = node_registry(core.statistics, group, member, portal, turns)
    return lambda: Page(body=scrape(registry), content_type=CONTENT_TYPE)


def _ready(faults: list[str]) -> Page:
    if faults:
        return Page(status=503, body="".join(f"{fault}\n" for fault in faults).encode())
    return Page(body=b"ready\n")


def _status(
    core: NodeCore,
    group: Callable[[], GroupStatistics | None],
    member: Callable[[], MemberStatistics | None],
    portal: Callable[[], PortalStatistics | None],
) -> Page:
    statistics = core.statistics()
    status = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    status["distributor"] = group()
    status["system"] = member()
    status["portal"] = portal()
    text = json.dumps(status, default=plain)
    return Page(body=f"{text}\n".encode(), content_type="application/json")
