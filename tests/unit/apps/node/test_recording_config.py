"""The section `node.recording` of the configuration."""

from __future__ import annotations

import pytest

from skerry.apps.node.config import NodeConfig
from skerry.apps.node.recording_config import NodeRecordingConfig, check_queue_bytes
from skerry.limits import RECORDER_QUEUE_BYTES_MAX


def test_a_node_records_nothing_without_a_folder() -> None:
    assert NodeConfig().recording == NodeRecordingConfig()
    assert NodeRecordingConfig().folder == ""


@pytest.mark.parametrize("size", [0, RECORDER_QUEUE_BYTES_MAX + 1])
def test_a_queue_has_a_size(size: int) -> None:
    with pytest.raises(ValueError, match="queue_bytes_max"):
        NodeRecordingConfig(queue_bytes_max=size)
    check_queue_bytes(RECORDER_QUEUE_BYTES_MAX)
