"""Puts shortest-path rules into the bridges of an emulated network, each bridge's as one atomic bundle.

They need no controller and lie below every rule of a plan.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from testbed.emulation.network.open_vswitch.switch_daemon import run_tool
from testbed.model.wiring import Wiring
from testbed.openflow.shortest_paths import Matches, ShortestPaths, ipv4_matches

_LIMIT_S = 120.0
_AT_ONCE = 48
"""Bridges that take their rules at the same time: the daemon looks at all its bridges and ports in each round, however
many speak to it, so that few at a time cost rounds in proportion to bridges squared."""


def install_shortest_paths(
    wiring: Wiring, switches: Collection[str] | None = None, matches: Matches = ipv4_matches
) -> int:
    """Let every pair of hosts talk; returns the number of rules. Raises CapabilityError where a bridge refuses.

    ``switches``: names of those that are here (None: all).
    """
    texts = ShortestPaths(wiring).flow_texts(matches)
    return change_rules(
        wiring,
        texts if switches is None else {name: texts[name] for name in texts if name in switches},
    )


def remove_shortest_paths(wiring: Wiring) -> int:
    """Take back what ``install_shortest_paths`` installed; returns the number of rules."""
    texts = ShortestPaths(wiring).flow_texts()
    return change_rules(
        wiring,
        {
            switch: tuple(f"delete_strict {text.split(',actions=')[0]}" for text in own)
            for switch, own in texts.items()
        },
    )


def change_rules(wiring: Wiring, lines: Mapping[str, tuple[str, ...]]) -> int:
    """Each switch's lines, in ovs-ofctl's notation, as one bundle to its bridge; returns their number."""
    rules = {wiring.switch_at(switch).device: texts for switch, texts in lines.items() if texts}
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for _ in pool.map(_add_flows, rules, rules.values()):
            pass
    return sum(len(texts) for texts in rules.values())


def rules_of(bridge: str, requested: str = "") -> list[str]:
    """The bridge's rules with their counters, as ovs-ofctl tells them; ``requested``: what they match
    (``cookie=1/-1``)."""
    return [
        line
        for line in _ofctl("dump-flows", bridge, requested).splitlines()
        if "n_packets=" in line
    ]


def _add_flows(bridge: str, texts: tuple[str, ...]) -> None:
    _ofctl("--bundle", "add-flows", bridge, "-", input_text="\n".join(texts))


def _ofctl(*words: str, input_text: str = "") -> str:
    return run_tool(
        "ovs-ofctl", "-O", "OpenFlow13", *words, limit_s=_LIMIT_S, input_text=input_text
    )
