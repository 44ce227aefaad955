"""The facts beside an object."""

from __future__ import annotations

import dataclasses

import pytest

from skerry.client.info import ObjectInfo


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
