"""A node whose clock is set back by 1.9 s each time it gets SIGUSR1.

`python _world_node.py ...` is `skerry node run ...`.
"""

from __future__ import annotations

import signal
import sys
import time

import skerry.runtime.clock as clock

STEP_NS = 1_900_000_000
_behind_ns = 0


def set_back(_number: int, _frame: object) -> None:
    global _behind_ns  # noqa: PLW0603 - a clock is one for the process
    _behind_ns += STEP_NS


clock.wall_ns = lambda: time.time_ns() - _behind_ns
signal.signal(signal.SIGUSR1, set_back)

from skerry.cli.main import main  # noqa: E402 - what it imports takes the clock from above

if __name__ == "__main__":
    sys.exit(main(["node", "run", *sys.argv[1:]]))
