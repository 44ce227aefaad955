from __future__ import annotations

from skerry.spark.report.findings import SLOW_MS, Findings
from skerry.spark.transforms.alarms import AlarmConfig


def test_findings_without_a_summary_are_empty() -> None:
    findings = Findings(summary=None)
    assert (findings.rates, findings.sessions, findings.alarms, findings.tables) == ((), (), (), ())
    assert findings.slow_ms == SLOW_MS == AlarmConfig().slow_delay_ms_min
