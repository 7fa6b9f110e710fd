"""Routings of one demand matrix with the time that each took: what studies of several chapters measure alike."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.routing.demands.matrix import DemandMatrix
    from testbed.routing.demands.splits import RoutedDemands


def timed_routings(
    matrix: DemandMatrix, methods: Sequence[str], seed: int
) -> Iterator[tuple[str, RoutedDemands, float]]:
    """Method, its routing of the matrix and the processor time that it took, in seconds."""
    from testbed.routing.demands.methods import route_demands

    for method in methods:
        began = time.process_time()
        routed = route_demands(matrix, method, seed)
        yield method, routed, time.process_time() - began
