"""Coded packets a second from interface counters that count loss reports as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.stream.plan import StreamPlan
from tests.helpers.link_counts import LinkCounts, measured_rates
from tests.helpers.stream_plans import planned
from topologies import load_network
from topologies.network import LinkId

AT_S, RATE_PPS, REPORTS_PPS = (1.0, 3.0), 220.0, 10.0


@pytest.fixture
def plan() -> StreamPlan:
    """A stream whose two return paths are disjoint."""
    found = planned(load_network("swiss-t1"), "s1", "s6", method="single")
    return found


def counted(plan: StreamPlan, at_s: float, down: LinkId | None = None) -> LinkCounts:
    """Coded packets on the single path, a copy of every report on each return path, up to the link that is down."""
    sent = dict.fromkeys((link.id for link in plan.network.links), 5)
    for paths, rate in ((plan.forward.paths, RATE_PPS), (plan.backward.paths, REPORTS_PPS)):
        for path in paths:
            for index in path.links:
                link = plan.network.links[index].id
                if link == down:
                    break
                sent[link] += int(rate * at_s)
    return LinkCounts(at_s=at_s, sent=sent, reports={plan.sink: 7 + int(2 * REPORTS_PPS * at_s)})


def test_reports_are_taken_off_where_they_went(plan: StreamPlan) -> None:
    assert len(plan.backward.paths) == 2
    rates = measured_rates([counted(plan, at_s) for at_s in (0.5, *AT_S, 9.0)], (0.9, 3.1), [plan])
    loaded = {plan.network.links[i].id for i in plan.forward.loaded}
    assert rates == {link: pytest.approx(RATE_PPS if link in loaded else 0.0) for link in rates}


def test_reports_are_taken_off_up_to_the_cable_that_is_down(plan: StreamPlan) -> None:
    longer = max((path.links for path in plan.backward.paths), key=len)
    down = plan.network.links[longer[1]].id
    samples = [counted(plan, at_s, down) for at_s in AT_S]
    idle = {plan.network.links[i].id for i in longer}
    assert all(
        rate == 0
        for link, rate in measured_rates(samples, AT_S, [plan], [down]).items()
        if link in idle
    )
    assert min(measured_rates(samples, AT_S, [plan])[link] for link in idle) == -REPORTS_PPS


def test_streams_that_share_a_link_add_up(plan: StreamPlan) -> None:
    other = replace(plan, forward=plan.backward, backward=plan.forward)
    one, two = ([counted(each, at_s) for at_s in AT_S] for each in (plan, other))
    both = [
        LinkCounts(
            at_s=a.at_s,
            sent={link: count + b.sent[link] for link, count in a.sent.items()},
            reports={**a.reports, **b.reports},
        )
        for a, b in zip(one, two, strict=True)
    ]
    rates = measured_rates(both, AT_S, [plan, other])
    alone = measured_rates(one, AT_S, [plan]), measured_rates(two, AT_S, [other])
    assert rates == {link: pytest.approx(alone[0][link] + alone[1][link]) for link in rates}
