"""Installs shortest-path rules in the bridges of an emulated network.

Each bridge gets its rules as one atomic bundle. They need no controller, and have lower priorities
than all rules of plans.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from testbed.emulation.network.open_vswitch.switch_daemon import run_tool
from testbed.model.wiring import Wiring
from testbed.openflow.shortest_paths import Matches, ShortestPaths, ipv4_matches

# Time limit for the rules of one bridge.
_LIMIT_S = 120.0

# Bridges that get their rules at the same time. The daemon looks at all its bridges and ports in
# each round, however many of them have a request. So with few bridges at a time, the total time
# grows with the square of their number.
_MAX_CONCURRENT = 48


def install_shortest_paths(
    wiring: Wiring, switches: Collection[str] | None = None, matches: Matches = ipv4_matches
) -> int:
    """Let every pair of hosts communicate over a shortest path.

    Args:
        wiring: The wiring.
        switches: Names of the switches on this machine; None for all.
        matches: Returns the matches of packets to a host.

    Returns:
        The number of rules.

    Raises:
        CapabilityError: A bridge refuses a rule.
    """
    texts = ShortestPaths(wiring).flow_texts(matches)
    if switches is not None:
        texts = {name: texts[name] for name in texts if name in switches}
    return change_rules(wiring, texts)


def remove_shortest_paths(wiring: Wiring) -> int:
    """Remove the rules that ``install_shortest_paths`` installed, and return their number."""
    deletions = {}
    for switch, texts in ShortestPaths(wiring).flow_texts().items():
        deletions[switch] = tuple(_deletion_of(text) for text in texts)
    return change_rules(wiring, deletions)


def _deletion_of(rule: str) -> str:
    """Return the line that deletes a rule, both in ovs-ofctl's notation."""
    match, _, _ = rule.partition(",actions=")
    return f"delete_strict {match}"


def change_rules(wiring: Wiring, lines: Mapping[str, tuple[str, ...]]) -> int:
    """Send lines of ovs-ofctl's notation to the bridges, as one bundle for each bridge.

    Args:
        wiring: The wiring.
        lines: Name of a switch -> its lines.

    Returns:
        The number of lines.
    """
    lines_by_bridge = {
        wiring.switch_at(switch).device: texts for switch, texts in lines.items() if texts
    }
    with ThreadPoolExecutor(max_workers=_MAX_CONCURRENT) as pool:
        # Reading the results raises the first error.
        for _ in pool.map(_add_flows, lines_by_bridge, lines_by_bridge.values()):
            pass
    return sum(len(texts) for texts in lines_by_bridge.values())


def rules_of(bridge: str, requested: str = "") -> list[str]:
    """Return the rules of a bridge with their counters, as ovs-ofctl prints them.

    Args:
        bridge: Name of the bridge.
        requested: Only rules that match this (``cookie=1/-1``); empty for all.
    """
    output = _ofctl("dump-flows", bridge, requested)
    return [line for line in output.splitlines() if "n_packets=" in line]


def _add_flows(bridge: str, texts: tuple[str, ...]) -> None:
    _ofctl("--bundle", "add-flows", bridge, "-", input_text="\n".join(texts))


def _ofctl(*arguments: str, input_text: str = "") -> str:
    return run_tool(
        "ovs-ofctl", "-O", "OpenFlow13", *arguments, limit_s=_LIMIT_S, input_text=input_text
    )
