"""Configuration of stored objects."""

from __future__ import annotations

import pytest

from skerry.config import Sources, Value, load
from skerry.limits import STORAGE_INTERVAL_MS_MAX
from skerry.runtime.storage.contract import StorageConfig, SyncPolicy


def test_by_default_each_batch_is_synced_at_once() -> None:
    config = StorageConfig()
    assert (config.sync, config.interval_ns) == (SyncPolicy.COMMIT, 0)


def test_interval_is_for_its_policy_only() -> None:
    config = StorageConfig(sync=SyncPolicy.INTERVAL, sync_interval_ms=250)
    assert config.interval_ns == 250_000_000
    assert StorageConfig(sync=SyncPolicy.NONE, sync_interval_ms=250).interval_ns == 0


def test_interval_is_bounded_on_both_sides() -> None:
    for fine in (1, STORAGE_INTERVAL_MS_MAX):
        assert StorageConfig(sync_interval_ms=fine).sync_interval_ms == fine
    for wrong in (0, STORAGE_INTERVAL_MS_MAX + 1):
        with pytest.raises(ValueError, match="sync_interval_ms"):
            StorageConfig(sync_interval_ms=wrong)


def test_policy_is_written_by_its_name() -> None:
    values = {"storage.sync": Value(raw="none", origin="here")}
    loaded = load("storage", StorageConfig, Sources(values=values))
    assert loaded.value == StorageConfig(sync=SyncPolicy.NONE)
