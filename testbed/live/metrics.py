"""The live state of a run in the text format of Prometheus.

See https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from testbed.live.view import LiveState
from testbed.model.naming.printable import printable


def exposition(view: LiveState) -> bytes:
    """Return all metrics that the run has. The cost is linear in the number of links."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(view))
    return bytes(generate_latest(registry))


class _Collector:
    """The collector that ``prometheus_client`` reads."""

    def __init__(self, view: LiveState) -> None:
        self._view = view

    def describe(self) -> Iterator[Metric]:
        """Return no descriptions, because they depend on the run."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the current state."""
        view = self._view
        reading = view.reading
        yield _gauge("testbed_run_done_ratio", "Share of the run that is done.", view.done)
        yield _gauge("testbed_run_over", "1 where the run is over.", float(view.ended is not None))
        sent = CounterMetricFamily(
            "testbed_link_sent_bytes", "Bytes put onto a link.", labels=("source", "target", "key")
        )
        for (source, target, key), octets in reading.link_bytes.items():
            sent.add_metric((printable(source), printable(target), str(key)), octets)
        yield sent
        load = GaugeMetricFamily(
            "testbed_link_load_ratio",
            "Load of a link, as drawn.",
            labels=("source", "target", "key"),
        )
        loads = view.loads() if view.view else {}
        for (source, target, key), share in loads.items():
            load.add_metric((printable(source), printable(target), str(key)), share)
        yield load
        yield _gauge("testbed_faults_in_force", "Faults in force.", float(len(view.faults())))
        for name, description, value in (
            ("testbed_stream_loss_ratio", "Packets lost of those sent lately.", view.loss()),
            ("testbed_stream_redundancy_ratio", "N/M - 1 of the last block.", view.redundancy()),
            ("testbed_time_frame", "The time frame that is open.", reading.frame),
        ):
            if value is not None:
                yield _gauge(name, description, float(value))
        for name, description, count in (
            ("testbed_stream_sent_packets", "Packets sent.", reading.sent),
            ("testbed_stream_received_packets", "Packets received.", reading.received),
        ):
            if count is not None:
                yield CounterMetricFamily(name, description, value=float(count))


def _gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(name, description, value=value)
