"""`skerry pipeline tables`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.spark.lake.lake import Lake
from tests.object_store import ObjectStore
from tests.unit.spark.deltas import change, stored_file

Run = Callable[..., Any]
NO_SPARK: Any = None


@pytest.mark.slow
def test_tables_are_listed_with_their_sizes(run: Run, lake: Path) -> None:
    done = run("pipeline", "tables", "--tables", lake, "--json")
    rows = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    assert {"updates/Vessel", "history/Vessel", "latest/Vessel", "updates/Hail"} <= set(rows)
    assert {"rates", "links", "sessions", "alarms"} <= set(rows)
    assert rows["updates/Vessel"]["rows"] == 4
    assert rows["latest/Vessel"]["rows"] == 1
    assert rows["updates/Vessel"]["bytes"] > 0
    shown = run("pipeline", "tables", "--tables", lake).out.splitlines()
    assert shown[0].split() == ["table", "rows", "files", "size"]
    assert len(shown) == len(rows) + 1


def test_the_note_about_an_empty_folder_names_the_command(run: Run, tmp_path: Path) -> None:
    done = run("pipeline", "tables", "--tables", tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "skerry pipeline run" in done.err


def test_remote_tables_are_listed_and_vacuumed_without_spark(run: Run, bucket: str) -> None:
    place = f"{bucket.replace('s3:', 's3a:')}/lake"
    lake = Lake(NO_SPARK, place)
    files = [stored_file(lake.store, "links", f"{n}.parquet", n, n + 1) for n in range(2)]
    lake.table("links").commit(change("links", files[0]), application="x", version=0)
    done = run("pipeline", "tables", "--tables", place, "--json")
    size = files[0].byte_count
    assert json.loads(done.out) == {"name": "links", "rows": 2, "files": 1, "bytes": size}
    done = run("pipeline", "vacuum", "--tables", place, "--older-than", "0")
    assert (done.code, done.out.split(",")[0]) == (0, f"{place}: 1 file")


def test_unusable_remote_paths_of_tables_are_errors(
    run: Run, bucket: str, object_store: ObjectStore
) -> None:
    done = run("pipeline", "tables", "--tables", f"{bucket}/none")
    assert (done.code, done.out) == (1, "")
    assert f"there is no folder {bucket}/none" in done.err
    for command in ("tables", "vacuum", "run", "follow"):
        more = ("--recordings", "none") if command in ("run", "follow") else ()
        done = run("pipeline", command, "--tables", "s3a://nobody-made-it/lake", *more)
        assert done.code == 1
        assert "there is no bucket nobody-made-it" in done.err
        assert "hint:  create it" in done.err
    with object_store.locked():
        done = run("pipeline", "tables", "--tables", bucket)
    assert done.code == 1
    assert "AWS_SECRET_ACCESS_KEY" in done.err
