"""Faults that overlap on one cable, and cables that come and go under them: the cable is whole when nothing breaks
it."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.control.fault_injection import FaultInjector
from testbed.errors import InputError
from testbed.faults.fault import (
    Direction,
    Fault,
    FaultKind,
    PoissonFaults,
    cables_of,
    flapping_faults,
    node_faults,
    overlapping,
    poisson_faults,
)
from topologies import load_network
from topologies.network import LinkId

AB: LinkId = ("a", "b", 0)
BA: LinkId = ("b", "a", 0)


class CableState:
    """A network of one cable, as the kernel would hold it."""

    def __init__(self) -> None:
        self.up = True
        self.loss = {AB: 0.0, BA: 0.0}

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        if direction == "forward":
            self.loss[link] = 0.0 if up else 1.0
        else:
            self.up = up
        return 0.0

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        for one in (AB, BA) if direction == "both" else (link,):
            self.loss[one] = fraction
        return 0.0


def fault(kind: FaultKind, link: LinkId, direction: Direction, loss: float) -> Fault:
    return Fault(link=link, kind=kind, start_s=0, stop_s=1, direction=direction, loss_fraction=loss)


faults = st.builds(
    fault,
    st.sampled_from(["down", "blackhole", "loss"]),
    st.sampled_from([AB, BA]),
    st.sampled_from(["both", "forward"]),
    st.sampled_from([0.25, 0.5]),
)


def expected(there: list[Fault], absent: bool, link: LinkId) -> tuple[bool, float]:
    kept = 1.0
    for one in there:
        if one.direction == "forward" and one.link != link:
            continue
        if not (one.kind == "down" and one.direction == "both"):
            kept *= 1 - (one.loss_fraction if one.kind == "loss" else 1.0)
    return not absent and not any(
        f.kind == "down" and f.direction == "both" for f in there
    ), 1 - kept


@given(st.data(), st.lists(faults, min_size=1, max_size=6))
def test_cable_is_at_every_moment_as_the_faults_in_force_make_it(
    data: st.DataObject, listed: list[Fault]
) -> None:
    network = CableState()
    breaker = FaultInjector(network)
    waiting, there, absent = list(listed), list[Fault](), False
    while waiting or there:
        choice = data.draw(
            st.sampled_from(["begin"] * bool(waiting) + ["end"] * bool(there) + ["move"])
        )
        if choice == "begin":
            there.append(waiting.pop())
            breaker.begin(there[-1])
        elif choice == "end":
            breaker.end(there.pop(data.draw(st.integers(0, len(there) - 1))))
        else:
            absent = not absent
            (breaker.vanish if absent else breaker.appear)([AB, BA])
        for link in (AB, BA):
            up, loss = expected(there, absent, link)
            assert network.up == up
            assert network.loss[link] == pytest.approx(loss)
    breaker.appear([AB])
    assert network.up and network.loss == {AB: 0.0, BA: 0.0}


def test_random_failures_come_as_often_and_as_evenly_as_asked() -> None:
    links = [link.id for link in load_network("torus:6x6").links]
    spec = PoissonFaults(rate_per_s=0.05, lasts_s=0.7, start_s=0.0)
    found = poisson_faults(links, spec, until_s=400.0, seed=3)
    mean = len(cables_of(links)) * 0.05 * 400
    assert abs(len(found) - mean) < 4 * math.sqrt(mean)
    gaps = [b.start_s - a.start_s for a, b in itertools.pairwise(found)]
    assert sum(g > 400 / mean for g in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.05)
    assert overlapping(found)
    assert 0.03 < spec.unavailability < 0.035


def test_failures_of_a_cable_do_not_depend_on_the_others() -> None:
    spec = PoissonFaults(rate_per_s=0.1, lasts_s=1.0, lengths="exponential")
    alone = poisson_faults([BA], spec, until_s=100.0, seed=5)
    together = poisson_faults([("x", "y", 0), AB, BA], spec, until_s=100.0, seed=5)
    assert alone == tuple(f for f in together if f.link == AB)
    assert alone != poisson_faults([AB], spec, until_s=100.0, seed=6)


def test_node_that_is_down_takes_all_its_cables() -> None:
    network = load_network("torus:4x4")
    found = node_faults(network, "s1_1", start_s=1.0, stop_s=2.0)
    assert len(found) == len({f.link for f in found}) >= 4
    assert all("s1_1" in f.link[:2] for f in found)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PoissonFaults(rate_per_s=0, lasts_s=1), "rate_per_s"),
        (lambda: PoissonFaults(rate_per_s=1, lasts_s=math.nan), "lasts_s"),
        (
            lambda: poisson_faults(
                [AB], PoissonFaults(rate_per_s=9, lasts_s=1, most=5), until_s=99, seed=1
            ),
            "more than 5",
        ),
        (
            lambda: flapping_faults(AB, period_s=1, down_s=1, start_s=0, stop_s=9),
            "0 < down < period",
        ),
        (lambda: node_faults(load_network("ring:4"), "s9", start_s=0, stop_s=1), "no such node"),
    ],
)
def test_schedule_that_cannot_be_made_is_refused(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()  # type: ignore[operator]
