"""The result of a check."""

from __future__ import annotations

from skerry.apps.doctor.results import failure, judged, passed, warning


def test_advice_is_given_only_where_something_can_be_improved() -> None:
    assert judged("mtu", "1500 bytes", "raise it", is_well=True) == passed("mtu", "1500 bytes")
    found = judged("mtu", "1400 bytes", "raise it", is_well=False)
    assert found == warning("mtu", "1400 bytes", "raise it")
    assert (found.verdict, failure("mtu", "none", "plug it in").verdict) == ("warn", "fail")
