"""The time from the head of a packet to its tail, for every channel and every packet size of a run.

A link transmits at ``SimulationParameters.link_bps``, or at its capacity (``capacities``). The
channel into an output buffer is as fast as the fastest link of its router.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from testbed.arrays import FloatArray, IntArray
from testbed.errors import InputError
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.options import MAX_LINK_BPS, MIN_LINK_BPS
from testbed.interconnect.parameters import (
    TICKS_PER_S,
    SimulationParameters,
    transmission_ticks,
)
from topologies import Network

# Longest transmission of a packet: what is due later has no room in the event keys
# (``compiled_run.py``).
MAX_PACKET_S = 16.4


class Transmission(NamedTuple):
    """The transmission times of a run.

    Attributes:
        rate: The row of each channel's rate in ``ticks``.
        ticks: [rate, size] Ticks from a packet's head to its tail.
    """

    rate: IntArray
    ticks: IntArray


def link_rates(network: Network, parameters: SimulationParameters) -> FloatArray:
    """Return the rate of every link, in bits per second.

    Raises:
        InputError: The capacity of a link is beyond the rates that the simulator's ticks resolve.
    """
    if not parameters.capacities:
        return np.full(len(network.links), parameters.link_bps)
    rates = [link.capacity_bps for link in network.links]
    for link, rate_bps in zip(network.links, rates, strict=True):
        if not MIN_LINK_BPS <= rate_bps <= MAX_LINK_BPS:
            raise InputError(
                f"{network.name}: link {link.label} of {rate_bps:g} bit/s; the simulator has links "
                f"of {MIN_LINK_BPS:g} to {MAX_LINK_BPS:g} bit/s: give --link-rate"
            )
    return np.array(rates, dtype=np.float64)


def host_link_bps(network: Network) -> float:
    """Return the capacity of the slowest link that begins or ends at a host.

    Raises:
        InputError: The network has no host.
    """
    hosts = {host.id for host in network.hosts}
    rates = [link.capacity_bps for link in network.links if {link.source, link.target} & hosts]
    if not rates:
        raise InputError(f"{network.name}: it has no host with a link; give it some")
    return min(rates)


def with_capacities(network: Network, parameters: SimulationParameters) -> SimulationParameters:
    """Return the parameters with which each link has its capacity.

    A load is then a share of the slowest link of a host, so that every host can offer it.

    Raises:
        InputError: No host has a link, or the simulator has no link of such a capacity.
    """
    with_rates = replace(parameters, capacities=True)
    link_rates(network, with_rates)
    return replace(with_rates, link_bps=host_link_bps(network))


def with_slowest_link(network: Network, parameters: SimulationParameters) -> SimulationParameters:
    """Return the parameters with which every link is as slow as the slowest of the network.

    Latencies without load that follow from them are upper limits for every pair of hosts.
    """
    if not parameters.capacities:
        return parameters
    slowest_bps = float(link_rates(network, parameters).min())
    return replace(parameters, capacities=False, link_bps=slowest_bps)


def sustained_bps(parameters: SimulationParameters, rate_bps: float) -> float:
    """Return the rate at which packets follow each other over a link between routers.

    It is below the rate of the link if the slots of the buffer behind it are all in use until the
    first credit is back, or if a virtual channel pauses between two packets.
    """
    hop = parameters.hop
    packet_bits = 8 * parameters.packet_bytes
    packet_s = packet_bits / rate_bps
    stored_s = packet_s if parameters.stores else 0.0
    if hop.output_buffers:
        slot_s = max(hop.router_delay_s, hop.link_delay_s + hop.credit_delay_s + stored_s)
    else:
        slot_s = hop.router_delay_s + hop.link_delay_s + hop.credit_delay_s + stored_s
    if hop.release == "tail":
        slot_s += packet_s
    by_credits = rate_bps
    if slot_s > 0:
        by_credits = parameters.slots * packet_bits / slot_s
    by_turnaround = packet_bits / (packet_s + hop.turnaround_s)
    return min(rate_bps, parameters.channels * min(by_credits, by_turnaround))


def build_transmission(
    model: NetworkModel, parameters: SimulationParameters, flits: IntArray
) -> Transmission:
    """Return the transmission times of packets of these sizes, in flits.

    Raises:
        InputError: A packet takes longer than MAX_PACKET_S.
    """
    rates, row = np.unique(_channel_rates(model, parameters), return_inverse=True)
    ticks = np.zeros((len(rates), len(flits)), dtype=np.int64)
    for number, rate_bps in enumerate(rates.tolist()):
        ticks[number] = [transmission_ticks(size, rate_bps) for size in flits.tolist()]
    longest_s = int(np.max(ticks, initial=0)) / TICKS_PER_S
    if longest_s > MAX_PACKET_S:
        raise InputError(
            f"{model.network.name}: a packet takes {longest_s:.3g} s over a link of "
            f"{rates[0]:g} bit/s; give at most {MAX_PACKET_S:g} s, "
            "with --packet-size or --link-rate"
        )
    return Transmission(row.astype(np.int64), ticks)


def _channel_rates(model: NetworkModel, parameters: SimulationParameters) -> FloatArray:
    """Return the rate of every channel, in bits per second."""
    rates = link_rates(model.network, parameters)
    if not model.layout.output_buffers:
        return rates
    # One entry more, for the ends of links that are hosts (NONE).
    fastest = np.zeros(model.layout.routers + 1)
    np.maximum.at(fastest, model.links.start, rates)
    np.maximum.at(fastest, model.links.end, rates)
    fastest[-1] = rates.max()
    return np.concatenate([rates, fastest[model.links.start]])
