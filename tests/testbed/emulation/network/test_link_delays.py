"""Links with a delay on real switches, whether the kernel's netem makes it or the relay: in order, before the capacity,
one way, next to impairments and faults."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.network.impairments.relay import LaneReport
from testbed.faults.impaired_link import ImpairedLink, most_late_s
from topologies.impairments import parse_impairments

LINK, BACK = ("x", "y", 0), ("y", "x", 0)
DELAY_S, CAPACITY_BPS = 0.03, 4e6
TOO_LATE_S = 0.02
"""On a machine that four runs share; the figures of a quiet one are in benchmarks/link_delays.jsonl."""


def _trip(net: Any) -> Any:
    """Numbered packets from a to b, as the tests of impairments send them (this file is loaded by its path)."""
    spec = importlib.util.spec_from_file_location(
        "cables", Path(__file__).with_name("test_impaired_cables.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Trip(net)


def _network() -> Any:
    from topologies.network import Link, Network, Node

    ends = (("a", "x", 5e7, 0.0), ("x", "y", CAPACITY_BPS, DELAY_S), ("y", "b", 5e7, 0.0))
    links = [
        Link(source=s, target=t, capacity_bps=c, delay_s=d if s == p else 0.0)
        for p, q, c, d in ends
        for s, t in ((p, q), (q, p))
    ]
    nodes = tuple(Node(id=n, kind="host" if n in "ab" else "switch") for n in "axyb")
    return Network(name="far", nodes=nodes, links=tuple(links))


def delayed() -> dict[str, Any]:
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring, found = wire(_network()), dict[str, Any]()
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        trip = _trip(net)
        trip.of(5, gap_s=0.02)
        found["plain"] = trip.of(400, gap_s=0.001)
        net.set_impairments(LINK, parse_impairments("loss:0.5"), "forward")
        found["lossy"] = trip.of(400, gap_s=0.001)
        net.set_impairments(LINK, (), "forward")
        found["whole"] = trip.of(200, gap_s=0.001)
        net.set_loss(LINK, 1.0, "forward")
        found["dark"] = trip.of(50, gap_s=0.001)
        net.set_loss(LINK, 0.0, "forward")
        net.set_link(LINK, False)
        net.set_link(LINK, True)
        time.sleep(0.1)
        found["again"] = trip.of(200, gap_s=0.001)
        found["flood"] = trip.of(600, gap_s=1242 * 8 / (3 * CAPACITY_BPS), size=1200)
        found["names"] = list(net.impairment_reports())
        net.forget_lateness()
        found["forgotten"] = [one.late_s for one in net.impairment_reports().values()]
    return found


@pytest.mark.emulation
def test_delayed_link_keeps_order_and_delays_before_its_capacity(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(delayed)
    for name, packets in (("plain", 400), ("whole", 200), ("again", 200)):
        waits = [waited for _, waited, _ in found[name]]
        assert [number for number, _, _ in found[name]] == list(range(packets)), name
        assert min(waits) >= DELAY_S - 1e-4, name
        assert statistics.median(waits) <= DELAY_S + TOO_LATE_S, name
    lossy = [waited for _, waited, _ in found["lossy"]]
    assert (
        120 < len(lossy) < 280 and min(lossy) >= DELAY_S - 1e-4
    )  # an impairment comes to the delay, not in its place
    assert found["dark"] == []
    times = sorted(at for _, _, at in found["flood"])[20:]
    assert (len(times) - 1) * 1242 * 8 / (times[-1] - times[0]) <= 1.08 * CAPACITY_BPS
    assert min(waited for _, waited, _ in found["flood"]) >= DELAY_S - 1e-4
    assert found["names"] in ([], ["x->y delay_s=0.03", "x->y loss:0.5 delay_s=0.03"])
    assert not any(found["forgotten"])


def configured() -> dict[str, Any]:
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.errors import InputError
    from testbed.faults.link_settings import LinkSettings
    from testbed.model.wiring import wire

    wiring, found = wire(_network()), dict[str, Any]()
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        control, trip = net, _trip(net)
        trip.of(5, gap_s=0.02)
        control.configure(LINK, LinkSettings(delay_s=0.08, one_way=True))
        found["far"] = trip.of(100, gap_s=0.002)
        control.configure(LINK, LinkSettings(delay_s=0.0, loss_fraction=0.5))
        found["lossy"] = trip.of(400, gap_s=0.001)
        found["told"] = {"->".join(link[:2]): words for link, words in control.configured().items()}
        net.set_loss(LINK, 1.0, "forward")
        found["dark"] = trip.of(50, gap_s=0.001)
        net.set_loss(LINK, 0.0, "forward")
        found["lossy again"] = trip.of(400, gap_s=0.001)
        control.configure(LINK, LinkSettings(capacity_bps=1e6, loss_fraction=0.0))
        found["slow"] = trip.of(200, gap_s=1242 * 8 / 3e6, size=1200)
        control.configure(LINK, LinkSettings(reset=True))
        time.sleep(0.2)
        found["whole"] = trip.of(200, gap_s=0.001)
        found["nothing"] = list(control.configured())
    with EmulatedNetwork(wiring, shape=False) as net:
        try:
            net.configure(LINK, LinkSettings(delay_s=0.01))
        except InputError as error:
            found["unshaped"] = str(error)
    return found


@pytest.mark.emulation
def test_capacity_delay_and_loss_change_in_use_and_beside_faults(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(configured)
    assert min(waited for _, waited, _ in found["far"]) >= 0.08 - 1e-4 and len(found["far"]) == 100
    for name in ("lossy", "lossy again"):
        assert 120 < len(found[name]) < 280, name
        assert statistics.median(waited for _, waited, _ in found[name]) < DELAY_S, name
    assert found["told"] == {"x->y": "bw=4 delay=0ms loss=50", "y->x": "bw=4 delay=0ms loss=50"}
    assert found["dark"] == []
    times = sorted(at for _, _, at in found["slow"])[20:]
    assert (len(times) - 1) * 1242 * 8 / (times[-1] - times[0]) <= 1.1e6
    assert [number for number, _, _ in found["whole"]] == list(range(200)) and found[
        "nothing"
    ] == []
    assert min(waited for _, waited, _ in found["whole"]) >= DELAY_S - 1e-4
    assert "links of this network are not shaped" in found["unshaped"]


@given(
    st.floats(0, 1),
    st.lists(st.floats(0, 0.1), max_size=30),
    st.sampled_from(["", "loss:0.3", "duplicate:0.5"]),
)
def test_link_delay_keeps_order_and_applies_to_every_copy(
    delay_s: float, gaps_s: list[float], words: str
) -> None:
    with_delay, without = (
        ImpairedLink(parse_impairments(words), LINK, seed=3, delay_s=d) for d in (delay_s, 0.0)
    )
    now, last = 0.0, 0.0
    for gap_s in gaps_s:
        now += gap_s
        times = with_delay.offer(now, 100)
        assert times == [at + delay_s for at in without.offer(now, 100)]
        assert all(last <= at for at in times)
        last = max(times, default=last)


@pytest.mark.parametrize(
    ("late_s", "missed", "delay_s", "counts"),
    [
        (0.0024, 0, 0.01, True),
        (0.0026, 0, 0.01, False),
        (0.0019, 0, 0.001, True),
        (0.0, 1, 0.01, False),
        (0.0049, 0, 0.1, True),
        (0.0051, 0, 0.1, False),
        (0.0049, 0, 0.0, True),
    ],
)
def test_run_is_valid_if_delays_are_a_quarter_late_at_most(
    late_s: float, missed: int, delay_s: float, counts: bool
) -> None:
    report = LaneReport(
        received=9,
        dropped=0,
        copies=0,
        refused=0,
        missed=missed,
        late_s=late_s,
        latest_s=1.0,
        delay_s=delay_s,
    )
    assert (report.problem() is None) == counts


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_a_longer_delay_is_never_judged_by_less(a: float, b: float) -> None:
    assert most_late_s(min(a, b)) <= most_late_s(max(a, b)) <= 0.005
