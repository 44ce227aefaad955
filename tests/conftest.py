"""Shared by all tests: the check of the build, the profile of Hypothesis, and Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from skerry import build_info
from tests.object_store import ObjectStore, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skerry.codec.envelope import Update

pytest_plugins = ["skerry.testing.plugin"]

# A deadline would measure the machine, not the code. `make bench` measures speed.
settings.register_profile(
    "skerry", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# For the second, uncompiled run of tests that already ran with all examples.
settings.register_profile("again", settings.get_profile("skerry"), max_examples=30)
settings.load_profile("skerry")


def pytest_report_header() -> str:
    return f"skerry {build_info.version()} ({build_info.mode()}) from {build_info.__file__}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop a run that should test one build but finds the other."""
    wanted = os.environ.get("SKERRY_TEST_MODE")
    if wanted and wanted != build_info.mode():
        pytest.exit(f"expected the {wanted} build, found the {build_info.mode()} build", 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with the object store as slow, because each may have to start it.

    The longest tests come first. One that started last would run on its own.
    """
    for item in items:
        if "object_store" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


# -- how parallel runs distribute tests

LONGEST = (
    "tests/apps/test_demo.py",
    "tests/apps/test_setup.py",
    "tests/apps/test_system.py",
    "tests/apps/test_recorder.py",
    "tests/apps/test_commands.py",
    "tests/runtime/test_system_network.py",
    "tests/sim/test_fresh_seeds.py",
    "tests/sim/test_distributor.py",
    "tests/sim/test_determinism.py",
)
"""The files that take longest. Their tests share no fixtures."""

SHARED = "tests/apps/storage/"
"""Tests that share one database server."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute the tests of the longest files one by one, and all others by file.

    The tests of one file share the fixtures of its module.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(LONGEST):
                return nodeid
            return SHARED if nodeid.startswith(SHARED) else super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


# -- Spark, recordings for it, and an object store


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """The object store of a run."""
    with started() as store:
        yield store


@pytest.fixture
def bucket(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of an empty bucket, for which this process has the credentials."""
    from skerry.runtime.recordings.files.remote_paths import file_system

    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    file_system.cache_clear()
    yield f"s3://{object_store.new_bucket()}"
    file_system.cache_clear()


@pytest.fixture(scope="session")
def spark(object_store: ObjectStore) -> Iterator[SparkSession]:
    """The Spark of a run: two cores, little memory. Commands find it and do not stop it."""
    from skerry.spark.startup.session import session

    # A few rows are processed faster interpreted than compiled.
    quick = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    with pytest.MonkeyPatch.context() as patched:
        # The processes of Spark get the credentials of the object store by their environment.
        for name, value in object_store.environment.items():
            patched.setenv(name, value)
        spark = session("local[2]", app_name="tests", memory="1g", conf=quick)
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def update_of() -> Callable[..., Update]:
    """Returns a function that makes the update of a published object."""
    from skerry.codec.envelope import ACCESS, CREATE, Update
    from skerry.objects.base import key_of
    from skerry.schema.fingerprint import fingerprint

    def make(obj: Any, **facts: Any) -> Update:
        struct = type(obj).descriptor
        own = {
            "subject": f"/{struct.name}/x",
            "operation": CREATE,
            "present": int(obj.attributes),
            "key": bytes(key_of(obj)),
            "payload": obj.encode(),
            "space": "test",
            "fingerprint": fingerprint(struct),
            "source": ACCESS,
        }
        return Update(type_name=struct.name, **{**own, **facts})

    return make


@pytest.fixture(scope="session")
def record() -> Callable[..., Path]:
    """Adds a sealed segment to the recording in a folder, with a batch for each list of updates."""
    from skerry.runtime.recordings.writer import RecordingWriter

    def write(folder: Path, *batches: Iterable[Update], types: Iterable[Any] = ()) -> Path:
        with RecordingWriter(folder, space="test") as writer:
            for cls in types:
                writer.describe(cls.descriptor)
            for updates in batches:
                for update in updates:
                    writer.append(update)
                writer.flush()
            writer.seal()
        return folder

    return write
