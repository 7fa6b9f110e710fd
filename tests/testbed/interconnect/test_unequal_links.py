"""Latencies and throughput of networks whose links have different rates, computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import read_messages
from testbed.interconnect.traffic.injection import (
    DestinationPattern,
    InjectionProcess,
    Injections,
    build_injections,
)
from testbed.interconnect.transmission import (
    sustained_bps,
    with_capacities,
    with_slowest_link,
)
from tests.helpers.injected_messages import messages
from tests.helpers.unequal_links import two_switches
from tests.oracles.interconnect import ENGINES, simulate
from topologies import Network

ROUTER_US = 0.127
PACKET_BITS = 8 * 2048
SLOW_CABLE = two_switches(host_bps=100e9, cable_bps=10e9)
FAST_CABLE = two_switches(host_bps=1e9, cable_bps=2e9)
HOST_US = PACKET_BITS / 100e9 * 1e6
CABLE_US = PACKET_BITS / 10e9 * 1e6


def parameters(network: Any, **options: Any) -> SimulationParameters:
    made = SimulationParameters(model="thesis", routing="shortest-path", **options)
    return with_capacities(network, made)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "switching, latency_us",
    [
        ("cut-through", 2 * ROUTER_US + CABLE_US),
        ("store-and-forward", 2 * ROUTER_US + HOST_US + CABLE_US + HOST_US),
    ],
)
def test_slow_cable_delays_one_packet(switching: str, latency_us: float, engine: str) -> None:
    """Cut-through: the slowest link alone. Store and forward: the sum over the links."""
    options = parameters(SLOW_CABLE, switching=switching)
    run = simulate(SLOW_CABLE, messages((0.0, 0, 2)), options, engine=engine)
    assert run.latencies_s()[0] * 1e6 == pytest.approx(latency_us, abs=1e-4)
    for rate_bps in (10e9, 100e9):  # the model of one rate is wrong
        alike = replace(options, capacities=False, link_bps=rate_bps)
        wrong = simulate(SLOW_CABLE, messages((0.0, 0, 2)), alike, engine=engine)
        exact = rate_bps == 10e9 and switching == "cut-through"
        assert exact == (abs(wrong.latencies_s()[0] * 1e6 - latency_us) < 0.1)


@pytest.mark.parametrize("engine", ENGINES)
def test_packet_does_not_leave_before_it_has_arrived(engine: str) -> None:
    """Two hosts of 1 Gbit/s send at once over a cable of 2 Gbit/s.

    The first packet takes the cable for as long as it arrives (16.384 us), the second, which has
    arrived by then, for 8.192 us. Each then takes 16.384 us over the link of its host.
    """
    sent = messages((0.0, 0, 2), (0.0, 1, 3))
    run = simulate(FAST_CABLE, sent, parameters(FAST_CABLE), engine=engine)
    first_us, second_us = np.sort(run.latencies_s()) * 1e6
    host_us = PACKET_BITS / 1e9 * 1e6
    assert first_us == pytest.approx(2 * ROUTER_US + host_us, abs=1e-4)
    assert second_us == pytest.approx(2 * ROUTER_US + 2 * host_us, abs=1e-4)


def poisson(choices: tuple[tuple[int, ...], ...], rate_per_s: float, count: int) -> Injections:
    """Return about ``count`` messages of each sender, for the hosts that it may choose."""
    pattern = DestinationPattern(name="drawn", choices=choices)
    process = InjectionProcess(rate_per_s=rate_per_s)
    return build_injections(pattern, process, duration_s=count / rate_per_s, seed=1)


@pytest.mark.parametrize(
    "network, bottleneck_bps",
    [(SLOW_CABLE, 10e9), (FAST_CABLE, 2e9), (two_switches(host_bps=10e9, cable_bps=40e9), 20e9)],
    ids=["slow cable", "cable of two hosts", "fast cable"],
)
def test_throughput_is_that_of_the_bottleneck(network: Network, bottleneck_bps: float) -> None:
    """Two hosts send as fast as their links can over one cable."""
    options = parameters(network)
    sent = poisson(((2,), (3,), (), ()), options.packets_per_s(1.0), 2000)
    run = simulate(network, sent, options)
    times_s = np.sort(run.delivered) / run.ticks_per_s
    packets_per_s = 1000 / (times_s[1500] - times_s[500])
    assert packets_per_s * PACKET_BITS == pytest.approx(bottleneck_bps, rel=0.03)


@pytest.mark.parametrize("utilisation", [0.3, 0.6])
def test_packets_wait_for_the_slow_cable_as_in_m_d_1(utilisation: float) -> None:
    """Waiting times of an M/D/1 queue whose service is the cable's (Pollaczek and Khinchine)."""
    sent = poisson(((2,), (), (), ()), utilisation * 10e9 / PACKET_BITS, 100_000)
    run = simulate(SLOW_CABLE, sent, parameters(SLOW_CABLE))
    wait_us = CABLE_US * utilisation / (2 * (1 - utilisation))
    latency_us = 2 * ROUTER_US + CABLE_US + wait_us
    assert run.latencies_s().mean() * 1e6 == pytest.approx(latency_us, rel=0.02)


@pytest.mark.parametrize("switching", ["cut-through", "store-and-forward"])
@pytest.mark.parametrize("model, packets", [("booksim", 2), ("booksim", 40), ("thesis", 2)])
def test_routers_sustain_the_rate_that_the_note_names(
    model: str, packets: int, switching: str
) -> None:
    """Delays of 2 Gbit/s routers, at 100 Gbit/s."""
    options = replace(
        parameters(two_switches(host_bps=100e9, cable_bps=100e9)),
        model=model,
        switching=switching,
        buffer_bytes=2048 * packets,
    )
    network = two_switches(host_bps=100e9, cable_bps=100e9)
    sent = poisson(((2,), (3,), (), ()), options.packets_per_s(1.0), 1000)
    times_s = np.sort(simulate(network, sent, options).delivered) / 1e11
    carried_bps = 500 * PACKET_BITS / (times_s[1000] - times_s[500])
    assert carried_bps == pytest.approx(sustained_bps(options, 100e9), rel=0.02)


def test_equal_capacities_are_one_rate() -> None:
    """The history is the same to the last digit."""
    network = two_switches(host_bps=2e9, cable_bps=2e9)
    own = parameters(network)
    sent = poisson(((2, 3), (2, 3), (0, 1), (0, 1)), own.packets_per_s(0.7), 500)
    one, two = (
        simulate(network, sent, options) for options in (own, replace(own, capacities=False))
    )
    assert one.digest == two.digest and np.array_equal(one.delivered, two.delivered)


def test_a_load_is_a_share_of_the_slowest_link_of_a_host() -> None:
    assert parameters(SLOW_CABLE).link_bps == 100e9
    assert with_slowest_link(SLOW_CABLE, parameters(SLOW_CABLE)).link_bps == 10e9


@pytest.mark.parametrize("rate_bps", [12.0, 1e14])
@pytest.mark.parametrize("bad_link", ["a->b", "h0->a"])
def test_rejects_rates_that_ticks_do_not_resolve(bad_link: str, rate_bps: float) -> None:
    rates = {"host_bps": 1e9, "cable_bps": 1e9}
    rates["cable_bps" if bad_link == "a->b" else "host_bps"] = rate_bps
    with pytest.raises(InputError, match=rf"link {bad_link} of .* give --link-rate"):
        parameters(two_switches(**rates))


def test_rejects_packets_longer_than_keys_have_room_for() -> None:
    network = two_switches(host_bps=1e9, cable_bps=12e3)
    options = parameters(network, packet_bytes=10**6, buffer_bytes=10**6)
    with pytest.raises(InputError, match="a packet takes 667 s over a link of 12000 bit/s"):
        simulate(network, messages((0.0, 0, 2)), options)


@pytest.mark.parametrize("engine", ENGINES)
def test_slow_transmission_is_progress(engine: str) -> None:
    """A packet takes 16.4 ms over the cable, longer than the watchdog of a run with NAC waits."""
    network = two_switches(host_bps=1e9, cable_bps=1e6)
    options = parameters(network, deadlock="nac")
    run = simulate(network, messages(*[(0.0, 0, 2)] * 8), options, engine=engine)
    assert run.received == 8 and not run.deadlocked


def test_frames_of_a_schedule_wait_for_the_slowest_link() -> None:
    """The second frame begins when a packet has crossed the cable of 10 Gbit/s."""
    document = {"frames": [[["h0", "h2"]], [["h1", "h3"]]]}
    injections = read_messages(document, SLOW_CABLE, parameters(SLOW_CABLE))
    assert injections.time_ps[1] / 1e6 >= CABLE_US + 2 * ROUTER_US
