"""The rates of the links of a simulation.

They are the capacities of the user's network, or one rate for all links.
"""

from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.plan import Experiment
from testbed.interconnect.transmission import host_link_bps, sustained_bps
from testbed.model.naming.names import NetworkLike, has_own_rates
from testbed.report.column_units import in_words
from topologies import JsonObject, Network

# A note says which part of a link's rate packets can use, if it is smaller than this.
ENOUGH = 0.9


def link_rates_document(experiment: Experiment) -> JsonObject:
    """Return the slowest and the fastest rate, and the rate that loads are shares of."""
    slowest_bps, fastest_bps = _limits(experiment.network, experiment.parameters)
    return {
        "slowest_bps": slowest_bps,
        "fastest_bps": fastest_bps,
        "load_1_bps": experiment.parameters.link_bps,
    }


def link_rates_note(
    requested: NetworkLike, network: Network, parameters: SimulationParameters
) -> str:
    """Return the sentence that says which rates the links have, and what they cannot carry.

    It is empty for a catalogue network whose links all have one capacity and can carry it.
    """
    rates = _rates_note(requested, network, parameters)
    limit = _sustained_note(network, parameters)
    if rates and limit:
        return f"{rates}; {limit}"
    return rates or limit


def link_delays_note(network: Network, parameters: SimulationParameters) -> str:
    """Return the sentence that says that delays of links are left out; empty if there are none."""
    longest_s = max((link.delay_s for link in network.links), default=0.0)
    if not longest_s:
        return ""
    return (
        f"the links' own delays (up to {in_words(longest_s, '_s')}) are left out: every hop has "
        f"the delays of the model {parameters.model} (--model, --router-delay)"
    )


def _sustained_note(network: Network, parameters: SimulationParameters) -> str:
    """Return the limit that the routers' delays and buffers set to the fastest link.

    It is empty if packets can use nearly the whole rate of the link.
    """
    _, fastest_bps = _limits(network, parameters)
    limit_bps = sustained_bps(parameters, fastest_bps)
    if limit_bps > ENOUGH * fastest_bps:
        return ""
    return (
        f"a link of {in_words(fastest_bps, '_bps')} carries at most {in_words(limit_bps, '_bps')} "
        f"with the delays of the model {parameters.model} and buffers of {parameters.slots} "
        "packets "
        "(--model, --router-delay, --buffer-size)"
    )


def _rates_note(requested: NetworkLike, network: Network, parameters: SimulationParameters) -> str:
    capacities = {link.capacity_bps for link in network.links}
    slowest_bps, fastest_bps = _limits(network, parameters)
    rates = f"links of {_range(slowest_bps, fastest_bps)}"
    if parameters.capacities:
        if slowest_bps == fastest_bps:
            return f"{rates}, the network's own capacity"
        share_bps = in_words(host_link_bps(network), "_bps")
        return (
            f"{rates}, the network's own capacities; a load is a share of {share_bps}, "
            "the slowest link of a host"
        )
    if capacities == {parameters.link_bps} or not has_own_rates(requested, network):
        return ""
    replaced = _range(min(capacities), max(capacities))
    return f"{rates}, all alike: --link-rate replaces the network's own capacities ({replaced})"


def _limits(network: Network, parameters: SimulationParameters) -> tuple[float, float]:
    """Return the rates of the slowest and of the fastest link, in bits a second."""
    if not parameters.capacities:
        return parameters.link_bps, parameters.link_bps
    capacities = [link.capacity_bps for link in network.links]
    return min(capacities), max(capacities)


def _range(slowest_bps: float, fastest_bps: float) -> str:
    rates = dict.fromkeys((in_words(slowest_bps, "_bps"), in_words(fastest_bps, "_bps")))
    return " to ".join(rates)
