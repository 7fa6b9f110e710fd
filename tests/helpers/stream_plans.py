"""Plans of streams, quiet unless faults are given."""

from __future__ import annotations

from typing import Any

from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.workload import stream_plan


def planned(
    network: Any, source: str, sink: str, *, stream: StreamParameters | None = None, **options: Any
) -> StreamPlan:
    """``options``: of ``testbed.stream_plan``."""
    return stream_plan(network, source, sink, **{"faults": (), **vars(stream or StreamParameters()), **options})
