"""Makes metric families, and metrics of a program with a few numbers, each without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class NumberCollector(Collector):
    """Converts numbers to metrics. `texts` has the help text of each name.

    Names that end with `_total` are counters, all others are gauges.
    """

    def __init__(
        self, texts: Mapping[str, str], numbers: Callable[[], Mapping[str, float]]
    ) -> None:
        self._texts = texts
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        numbers = self._numbers()
        for name, text in self._texts.items():
            yield metric_family(name, text, (), [((), numbers[name])])


def number_registry(
    texts: Mapping[str, str], numbers: Callable[[], Mapping[str, float]]
) -> CollectorRegistry:
    """The registry with the metrics of a program and its process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NumberCollector(texts, numbers))
    ProcessCollector(registry=registry)
    return registry


def metric_family(
    name: str,
    text: str,
    labels: Iterable[str],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """The metrics of one name, by label values: a counter if it ends with `_total`, or a gauge."""
    family: CounterMetricFamily | GaugeMetricFamily
    if name.endswith("_total"):
        family = CounterMetricFamily(name.removesuffix("_total"), text, labels=tuple(labels))
    else:
        family = GaugeMetricFamily(name, text, labels=tuple(labels))
    for label, value in values:
        family.add_metric(label, value)
    return family
