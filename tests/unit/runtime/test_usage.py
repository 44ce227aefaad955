"""Resource usage of the process, as fields of DotsResourceUsage."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from skerry.objects.internal import internal_class
from skerry.runtime.usage import resource_usage


def test_usage_has_the_fields_of_its_type() -> None:
    cls = internal_class("DotsResourceUsage")
    obj = cls(**resource_usage())
    assert cls.decode(obj.encode()) == obj
    assert obj.maxRss > 1000
    assert obj.userCpuTime > 0.0
    assert {field.name for field in cls.descriptor.fields} == set(resource_usage())


def test_counts_are_limited_to_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in dir(resource.getrusage(resource.RUSAGE_SELF)) if name[:3] == "ru_"]
    huge = SimpleNamespace(**dict.fromkeys(names, 2**31))
    monkeypatch.setattr(resource, "getrusage", lambda _: huge)
    usage = resource_usage()
    assert usage["minorFaults"] == usage["maxRss"] == 2**31 - 1
    assert internal_class("DotsResourceUsage")(**usage).encode()
