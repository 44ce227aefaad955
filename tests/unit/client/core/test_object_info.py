"""The facts beside an object."""

from __future__ import annotations

import dataclasses

import pytest

from skerry.client.core.object_info import ObjectInfo, info_of
from skerry.codec.hot_loops import ObjectState


def test_facts_do_not_change() -> None:
    info = ObjectInfo(
        last_operation="create",
        created=1.0,
        created_from=2,
        modified=1.0,
        modified_from=2,
        received=3.0,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.created = 5.0  # type: ignore[misc]


def test_info_of_a_state_tells_by_whom_and_when() -> None:
    info = info_of(ObjectState(b"", 0, "", 1.0, 5, 2.0, 6, "update", 3.0, 1))
    assert (info.last_operation, info.created, info.created_from) == ("update", 1.0, 5)
    assert (info.modified, info.modified_from, info.received) == (2.0, 6, 3.0)
