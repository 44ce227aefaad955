"""Computers that are gone: other clients get their claims soon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.namespaces import in_namespace, require_nft

SCENARIO = Path(__file__).with_name("vanished_scenario.py")


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_stands_by_answers_when_the_other_computer_is_gone_with_a_request(loop: str) -> None:
    words = ("--nft", require_nft(), "--silence-s-max", "1", "--loop", loop)
    line = [*in_namespace(), sys.executable, str(SCENARIO), *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"before": "first", "after": "second"}
