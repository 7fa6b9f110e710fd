"""What is handed to the library by mistake is refused in a line that says what to give, not by an error from within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import testbed
from testbed.api.tunnel import Tunnel
from testbed.errors import InputError, UsageError

RING = testbed.network("ring:3")
CALLS: dict[str, tuple[Callable[[Any], object], tuple[object, ...]]] = {
    "draw route": (lambda given: testbed.draw(RING, route=given), ("s0", [("s0", "s1")], 2)),
    "draw loads": (lambda given: testbed.draw(RING, loads=given), ("s0", [("s0", "s1")], 2)),
    "draw faults": (lambda given: testbed.draw(RING, faults=given), (2, None)),
    "compare": (testbed.compare, (2, None)),
    "without": (RING.without, ([("s0", "s1")], {}, 2, None)),
    "pattern": (
        lambda given: testbed.bulk_plan(RING, pattern=given),
        ([], {}, [("h0",)], [("h0", "h1", "h2")]),
    ),
}


@pytest.mark.parametrize(
    ("call", "given"), [(call, one) for call, many in CALLS.values() for one in many]
)
def test_is_refused(call: Callable[[Any], object], given: object) -> None:
    with pytest.raises(ValueError, match=r"give|has no link|of the wrong kind") as refused:
        call(given)
    assert type(refused.value) is not ValueError and "\n" not in str(refused.value)


def test_missing_values_of_a_plan_are_named() -> None:
    with pytest.raises(UsageError, match=r"^striping_plan: give compute_nodes and io_nodes$"):
        testbed.striping_plan(RING)
    with pytest.raises(InputError, match="has no node '0'"):
        testbed.route(RING, 0, 2)


def test_arrays_of_numpy_are_lists() -> None:
    named = {"source": np.str_("s0"), "sink": "s1", "duration_s": np.float32(1)}
    assert testbed.stream_plan(RING, **named, faults=np.array([])).faults == ()
    assert testbed.simulation_plan(RING, loads=np.array([0.1, 0.2])) == testbed.simulation_plan(
        RING, loads=[0.1, 0.2]
    )
    pairs = testbed.bulk_plan(RING, pattern=np.array([["h0", "h1"]]))
    assert repr(pairs) == repr(testbed.bulk_plan(RING, pattern=[["h0", "h1"]]))


@pytest.mark.parametrize("rate", [0, 10**400])
def test_a_number_that_no_plan_can_have(rate: int) -> None:
    with pytest.raises(UsageError, match="metapath_plan: an argument is of the wrong kind"):
        testbed.metapath_plan(RING, "s0", "s1", rate_pps=rate)


def test_a_directory_of_results_without_a_possible_name() -> None:
    plan = testbed.bulk_plan(RING, pattern=[["h0", "h1"]])
    with pytest.raises(InputError, match="NUL character; choose another directory"):
        testbed.run(plan, "simulator", results="a\0b")


def test_the_tunnel_has_no_end_there() -> None:
    tunnel = object.__new__(Tunnel)
    tunnel.addresses = {"s0": "10.9.0.1", "s1": "10.9.0.2"}
    assert tunnel.address("s0") == "10.9.0.1"
    with pytest.raises(InputError, match=r"^no end of the tunnel is at 's7'; it has s0, s1$"):
        tunnel.address("s7")


def test_input_of_a_program_is_text() -> None:
    with pytest.raises(UsageError, match=r"^input: got a bytes; give text$"):
        object.__new__(testbed.Session).exec("h0", ["cat"], input=b"x")  # type: ignore[arg-type]
