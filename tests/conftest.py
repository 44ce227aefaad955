"""What all tests share: the build they are of, and how Hypothesis searches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from skerry import build_info

pytest_plugins = ["skerry.testing.plugin"]

# A deadline measures the machine, not the code; speed has its own place, `make bench`.
settings.register_profile(
    "skerry", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("skerry")


SPARK = Path(__file__).parent / "spark"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files stay together, so that what a module sets up is set up once; all of Spark does."""
    for item in items:
        group = SPARK if SPARK in item.path.parents else item.path
        item.add_marker(pytest.mark.xdist_group(str(group)))


def pytest_report_header() -> str:
    return f"skerry {build_info.version()} ({build_info.mode()}) from {build_info.__file__}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run that was meant for one build must not quietly test the other."""
    wanted = os.environ.get("SKERRY_TEST_MODE")
    if wanted and wanted != build_info.mode():
        pytest.exit(f"this should be the {wanted} build, and it is {build_info.mode()}", 1)
