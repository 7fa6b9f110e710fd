"""What is handed to the library by mistake is refused in a line that says what to give, not by an error from within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import testbed

RING = testbed.network("ring:3")
CALLS: dict[str, tuple[Callable[[Any], object], tuple[object, ...]]] = {
    "draw route": (lambda given: testbed.draw(RING, route=given), ("s0", [("s0", "s1")], 2)),
    "draw loads": (lambda given: testbed.draw(RING, loads=given), ("s0", [("s0", "s1")], 2)),
    "draw faults": (lambda given: testbed.draw(RING, faults=given), (2, None)),
    "compare": (testbed.compare, (2, None)),
    "without": (RING.without, ([("s0", "s1")], {}, 2, None)),
    "pattern": (lambda given: testbed.bulk_plan(RING, pattern=given), ([], {}, [("h0",)], [("h0", "h1", "h2")])),
}


@pytest.mark.parametrize(("call", "given"), [(call, one) for call, many in CALLS.values() for one in many])
def test_is_refused(call: Callable[[Any], object], given: object) -> None:
    with pytest.raises(ValueError, match=r"give|has no link|of the wrong kind") as refused:
        call(given)
    assert type(refused.value) is not ValueError and "\n" not in str(refused.value)
