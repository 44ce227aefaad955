"""The simulator: whole systems in one process, with clock, network and randomness from a seed.

It serves tests of applications as well as those of skerry. A system is built in a `World` from
machines (`skerry.protocol.machine`). Faults disturb it, workloads use it, and checkers state what
must hold. The same seed gives the same run, byte for byte.

world         clock, event queue and random sources of a run
node          one simulated node: a machine with its clock and input queue
network       datagrams between nodes
packet        a datagram, or a part of a stream, on the network
streams       streams between nodes
stream_end    one end of a stream
faults        faults of links: loss, duplication, reordering, partition
node_faults   faults of nodes, clocks and streams
workloads     actions of simulated clients
checkers      conditions that must hold
trace         one line of JSON per event, and their hash
scenarios     a system with faults, workload and checkers under one name
seeds         the file of seeds that have failed
plugin        the `world` fixture for pytest
machines      example machines, a node and its clients, and the scenarios of `skerry sim`
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
    InterfaceLosses,
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
    "InterfaceLosses",
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
