"""Resource usage of this process."""

from __future__ import annotations

import resource
from typing import Final

_INT32_MAX: Final = 2**31 - 1


def resource_usage() -> dict[str, float]:
    """Fields of DotsResourceUsage: peak memory in kilobytes, times in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    counts = {
        "minorFaults": used.ru_minflt,
        "majorFaults": used.ru_majflt,
        "inBlock": used.ru_inblock,
        "outBlock": used.ru_oublock,
        "nrSignals": used.ru_nsignals,
        "nrSwaps": used.ru_nswap,
        "nrVoluntaryContextSwitches": used.ru_nvcsw,
        "nrInvoluntaryContextSwitches": used.ru_nivcsw,
        "maxRss": used.ru_maxrss,
    }
    # The fields have 32 bits, which a node that runs for months exceeds.
    bounded: dict[str, float] = {name: min(count, _INT32_MAX) for name, count in counts.items()}
    return {**bounded, "userCpuTime": used.ru_utime, "systemCpuTime": used.ru_stime}
