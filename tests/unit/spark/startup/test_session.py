"""With what a session is built; that it runs is seen by every test that uses one."""

from __future__ import annotations

import os

import pytest

from skerry.spark.startup.daemon import MODULE
from skerry.spark.startup.session import (
    FILTER_PUSHDOWN,
    core_count,
    is_in_this_process,
    is_on_this_computer,
    settings,
)
from skerry.spark.startup.small_batches import FOR_FEW


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[*]", os.cpu_count()),
        ("local[2,4]", 2),
        ("local-cluster[2,3,1024]", 6),
    ],
)
def test_masters_on_this_computer_and_their_cores(master: str, cores: int) -> None:
    assert is_on_this_computer(master)
    assert is_in_this_process(master) == ("cluster" not in master)
    assert core_count(master) == cores
    chosen = settings(master, memory="1g")
    assert chosen["spark.sql.shuffle.partitions"] == str(cores)
    assert chosen["spark.driver.host"] == "127.0.0.1"
    assert chosen["spark.python.daemon.module"] == MODULE


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_on_a_cluster_nothing_is_bound_to_this_computer(master: str) -> None:
    assert not is_on_this_computer(master)
    chosen = settings(master, memory="1g")
    assert not {"spark.driver.host", "spark.python.daemon.module"} & chosen.keys()
    assert chosen[FILTER_PUSHDOWN] == "true"


def test_settings_of_the_caller_override_defaults() -> None:
    conf = {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "9"}
    chosen = settings("local[2]", memory="3g", conf=conf)
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.sql.shuffle.partitions"] == "9"
    assert chosen["spark.driver.memory"] == "3g"
    assert chosen["spark.sql.session.timeZone"] == "UTC"


def test_a_brief_local_session_has_settings_for_few_rows() -> None:
    chosen = settings("local[2]", memory="1g", is_brief=True)
    assert FOR_FEW.items() <= chosen.items()
    assert "TieredStopAtLevel=1" in chosen["spark.driver.extraJavaOptions"]
    assert "log4j2" in chosen["spark.driver.extraJavaOptions"]
    assert "TieredStop" not in settings("local[2]", memory="1g")["spark.driver.extraJavaOptions"]
    assert settings("yarn", memory="1g", is_brief=True) == settings("yarn", memory="1g")
