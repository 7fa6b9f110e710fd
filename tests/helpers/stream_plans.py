"""Plans of streams, quiet unless faults are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.workload import stream_plan


def planned(
    network: Any, source: str, sink: str, *, stream: StreamParameters | None = None, **options: Any
) -> StreamPlan:
    """``options``: of ``testbed.stream_plan``."""
    return stream_plan(
        network, source, sink, **{"faults": (), **vars(stream or StreamParameters()), **options}
    )


def uncounted(run: StreamMeasurements) -> StreamMeasurements:
    """The run without what its ends counted, which is not that of logs that were changed."""
    counted = {"sent_source", "path_reports"}
    return replace(
        run, counters={name: value for name, value in run.counters.items() if name not in counted}
    )
