"""The simulator: whole systems in one process, with a clock, a network and chance made of a seed.

For the tests of your own programs as much as for those of skerry. A system is built in a `World`
from machines (`skerry.protocol.machine`); faults make its life hard, workloads use it, checkers say
what must hold. The same seed gives the same run, byte for byte.
"""

from __future__ import annotations

from skerry.testing.checkers import (
    Checker,
    EachOnce,
    Eventually,
    InOrder,
    Invariant,
    NoInvention,
)
from skerry.testing.faults import (
    Clog,
    Duplication,
    Exactly,
    Fault,
    Jitter,
    LinkFault,
    LongDatagrams,
    LoseIf,
    Loss,
    Partition,
    RateLimit,
    Reordering,
)
from skerry.testing.node import Factory, Node, Setting
from skerry.testing.node_faults import (
    ClockDrift,
    ClockJumps,
    Clogs,
    Partitions,
    Pauses,
    Recurring,
    Refusals,
    Restarts,
    SlowReaders,
    StreamLosses,
)
from skerry.testing.packet import MULTICAST, STREAM, UNICAST, Packet
from skerry.testing.scenarios import Outcome, Scenario, find_scenario, run_scenario, scenario
from skerry.testing.workloads import Repeat, Script, Workload
from skerry.testing.world import MS, SECOND, World

__all__ = [
    "MS",
    "MULTICAST",
    "SECOND",
    "STREAM",
    "UNICAST",
    "Checker",
    "ClockDrift",
    "ClockJumps",
    "Clog",
    "Clogs",
    "Duplication",
    "EachOnce",
    "Eventually",
    "Exactly",
    "Factory",
    "Fault",
    "InOrder",
    "Invariant",
    "Jitter",
    "LinkFault",
    "LongDatagrams",
    "LoseIf",
    "Loss",
    "NoInvention",
    "Node",
    "Outcome",
    "Packet",
    "Partition",
    "Partitions",
    "Pauses",
    "RateLimit",
    "Recurring",
    "Refusals",
    "Reordering",
    "Repeat",
    "Restarts",
    "Scenario",
    "Script",
    "Setting",
    "SlowReaders",
    "StreamLosses",
    "Workload",
    "World",
    "find_scenario",
    "run_scenario",
    "scenario",
]
