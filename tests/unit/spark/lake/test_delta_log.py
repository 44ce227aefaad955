from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema

from skerry.errors import PipelineError
from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.delta import Table
from skerry.spark.lake.delta_log import LOG_KEEP_S, commit_change, contents_of_log, open_log
from skerry.spark.lake.store import TableStore
from tests.unit.spark.deltas import SCHEMA, change, data_file, table_of


def test_a_committed_change_is_in_the_contents_of_the_log(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    assert open_log(store, "t") is None
    assert contents_of_log(None) is None
    file = data_file(tmp_path, "t", "a.parquet", 1)
    commit_change(store, change("t", file), None, application="x", version=3, log_keep_s=LOG_KEEP_S)
    log = open_log(store, "t")
    assert log is not None
    assert log.transaction_version("x") == 3
    contents = contents_of_log(log)
    assert contents is not None
    assert (contents.files, contents.divided_by) == ((file,), ("hour",))


def test_an_unreadable_log_is_reported_with_its_table(tmp_path: Path) -> None:
    table = table_of(tmp_path, "updates/T")
    table.commit(
        change("updates/T", data_file(tmp_path, "updates/T", "a.parquet", 1)),
        application="x",
        version=0,
    )
    (entry,) = (tmp_path / "updates/T/_delta_log").glob("*.json")
    entry.write_text("nonsense")
    with pytest.raises(PipelineError, match="updates/T"):
        table.files()


def test_the_error_of_an_unreadable_log_has_one_line(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    table.commit(change("t", data_file(tmp_path, "t", "a.parquet", 1)), application="x", version=0)
    (entry,) = (tmp_path / "t/_delta_log").glob("*.json")
    entry.write_text("nonsense")
    with pytest.raises(PipelineError, match=r"^the log of table t cannot be read: .+\Z") as caught:
        table.files()
    assert str(tmp_path / "t/_delta_log") in str(caught.value.hint)


def settings_of(folder: Path) -> dict[str, str]:
    return dict(DeltaTable(folder).metadata().configuration)


RETENTION = "delta.logRetentionDuration"


def test_log_entries_are_kept_for_a_day(tmp_path: Path) -> None:
    table = table_of(tmp_path, "t")
    table.commit(change("t", data_file(tmp_path, "t", "a.parquet", 1)), application="x", version=0)
    assert LOG_KEEP_S == 86_400
    assert settings_of(tmp_path / "t") == {RETENTION: "interval 86400 seconds"}


def test_a_log_without_retention_gets_one_and_an_explicit_one_is_kept(
    tmp_path: Path,
) -> None:
    for name in ("old", "own"):
        file = data_file(tmp_path, name, "a.parquet", 1)
        retention = {} if name == "old" else {RETENTION: "interval 3 days"}
        DeltaTable.create(
            tmp_path / name,
            Schema.from_arrow(SCHEMA),
            partition_by=["hour"],
            configuration=retention,
        )
        table = table_of(tmp_path, name)
        assert table.commit(change(name, file), application="x", version=0)
        assert table.files() == [file]
        assert table.version_of("x") == 0
    assert settings_of(tmp_path / "old") == {RETENTION: "interval 86400 seconds"}
    assert settings_of(tmp_path / "own") == {RETENTION: "interval 3 days"}


def short_log(root: Path, commits: int) -> tuple[Table, list[DataFile]]:
    """A table whose log is shortened at each checkpoint, and files of which it has the last."""
    table = Table(TableStore(root), "t", log_keep_s=0)
    files = [data_file(root, "t", f"{number}.parquet", number) for number in range(commits)]
    for number, file in enumerate(files):
        removed = (files[number - 1].path,) if number else ()
        assert table.commit(change("t", file, removed=removed), application="x", version=number)
    return table, files


@pytest.mark.slow
def test_a_shortened_log_keeps_its_batches_and_files(tmp_path: Path) -> None:
    table, files = short_log(tmp_path, 220)
    entries = sorted((tmp_path / "t/_delta_log").glob("*.json"))
    assert len(entries) < 150, "those before a checkpoint were deleted"
    assert table.version_of("x") == 219
    assert not table.commit(change("t", files[3]), application="x", version=3)
    assert table.files() == [files[-1]]


@pytest.mark.slow
def test_a_log_is_intact_if_its_writer_died_while_shortening_it(tmp_path: Path) -> None:
    table, files = short_log(tmp_path, 105)
    folder = tmp_path / "t/_delta_log"
    (checkpoint,) = folder.glob("*.checkpoint.parquet")
    (folder / "_last_checkpoint").unlink()
    last = int(checkpoint.name[:20])
    for number in (0, 3, 50, last):
        # Some entries before the checkpoint are deleted, some are not, and some are incomplete.
        (folder / f"{number:020}.json").unlink(missing_ok=True)
    for number in (2, 49):
        (folder / f"{number:020}.json").write_text("{}")
    (folder / f"{last + 100:020}.checkpoint.parquet#1").write_bytes(b"half")
    assert table.files() == [files[-1]]
    assert table.version_of("x") == 104
    more = data_file(tmp_path, "t", "more.parquet", 1)
    assert table.commit(change("t", more), application="x", version=105)
    assert {file.path for file in table.files()} == {files[-1].path, "more.parquet"}
