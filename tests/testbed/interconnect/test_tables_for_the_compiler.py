"""Tables of all networks are of one kind for the compiler: it compiles once more for every other order in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from topologies import load_network


def kinds(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Names of arrays in nested named tuples, each with its type, dimensions and order in memory."""
    if isinstance(value, np.ndarray):
        yield name, f"{value.dtype} {value.ndim} {value.flags.c_contiguous} {value.flags.writeable}"
    for field in getattr(value, "_fields", ()):
        yield from kinds(getattr(value, field), f"{name}.{field}")


@pytest.mark.parametrize(
    "name", ["torus:8x8", "torus:16x16", "mesh:3x4", "ring:5", "fat-tree:2,3", "swiss-t1"]
)
@pytest.mark.parametrize("routing", ["shortest-path", "ft-drb"])
def test_every_network_has_the_tables_of_a_small_torus(name: str, routing: str) -> None:
    parameters = SimulationParameters(model="thesis", routing=routing, deadlock="nac")
    found, small = (
        build_model(load_network(network), parameters).paths for network in (name, "torus:3x3")
    )
    assert dict(kinds(found)) == dict(kinds(small))
    assert len(dict(kinds(found))) > 10
