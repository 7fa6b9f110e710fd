"""Routings of one demand matrix with the time that each took: what studies of several chapters measure alike."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any


def timed_routings(matrix: Any, methods: Sequence[str], seed: int) -> Iterator[tuple[str, Any, float]]:
    """Method, its routing of the matrix (``RoutedDemands``) and the processor time that it took, in seconds."""
    from testbed.routing.demands.methods import route_demands

    for method in methods:
        began = time.process_time()
        routed = route_demands(matrix, method, seed)
        yield method, routed, time.process_time() - began
