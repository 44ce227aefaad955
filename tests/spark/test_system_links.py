"""Recordings of three nodes of a system: the links between the nodes are in the tables."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from skerry.spark.jobs.loop import run_all
from skerry.spark.lake.lake import Lake
from skerry.spark.report.collector import collect_findings
from tests.apps.test_system import PATIENCE_S, Site, agree, until
from tests.spark.lakes import BothTables


@pytest.mark.slow
def test_links_between_nodes_are_in_the_tables_and_the_report(spark: Any, tmp_path: Path) -> None:
    site = Site(tmp_path)
    folder = tmp_path / "recordings"
    with ExitStack() as ending:
        # The third node is not recorded.
        a, b, c = (
            ending.enter_context(site.node(name, *options))
            for name, options in (
                ("a", ("--record", str(folder / "a"))),
                ("b", ("--record", str(folder / "b"))),
                ("c", ()),
            )
        )
        until(lambda: agree(a, b, c), "the nodes have different pictures")
        ids = {one.name: one.id for one in a.picture.nodes}
        # What was counted last is recorded when a node stops.
        for one in (a, b):
            one.process.terminate()
            assert one.process.wait(PATIENCE_S) == 0
    run_all(Lake(spark, tmp_path / "lake"), folder)
    tables = BothTables(spark, tmp_path / "lake")
    links = {
        (row.sender, row.node): row
        for row in tables.frame("links").where("source = 'link'").collect()
    }
    pairs = {(one, other) for one in "abc" for other in "abc" if one != other}
    assert links.keys() == {(ids[one], ids[other]) for one, other in pairs}
    for row in links.values():
        assert row.datagrams > 0
        assert row.bytes > row.datagrams
        assert (row.updates, row.lost) == (0, 0)
    # Only its sender counts what is sent again, and the round trips.
    assert links[ids["a"], ids["b"]].retransmissions >= 0
    assert links[ids["a"], ids["b"]].round_trip_ms > 0
    assert links[ids["c"], ids["a"]].retransmissions is None
    nodes = tables.frame("sessions").where("kind = 'node'").collect()
    assert {(row.node, row.name) for row in nodes} == {
        (number, name) for name, number in ids.items()
    }
    found = collect_findings(tables).node_links
    assert {(one.sender, one.receiver) for one in found} == pairs
