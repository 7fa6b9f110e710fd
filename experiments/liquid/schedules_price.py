"""The price of each restriction of a schedule, as a multiple of the flow bound.

The flow bound is the smallest time between the switches that any routes and any division of
messages allow. The restrictions are:

- One static route per pair.
- One route per pair from a routing that balances loads.
- One such route for each half of a message.
- Circuits: a link carries one message at a time, in frames that are the same for all links.
- The links of the hosts.

All hosts send to all. Messages are equal, or log-normal with sigma 1. Multicast, allgather and
reductions are left out, because they have optimal schedules of their own (ForestColl, arXiv
2402.06787). MSCCL++ is left out too.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from experiments.liquid.rows import column
from testbed.model.studies import (
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    grid,
    where,
)
from testbed.report.drawing.charts import draw_bars
from topologies import LinkId, Network, load_network

QUICK_NETWORKS = (
    "torus:4x4",
    "hypercube:4",
    "kautz:20,4",
    "dragonfly:2,1,1",
    "swiss-t1:allocation=2-2-2-2-0-0-0-0",
    "gpu-machines:2,4",
)
NETWORKS = (*QUICK_NETWORKS, "torus:8x8", "dragonfly:4,2,2", "swiss-t1")

# Kinds of loads.
EQUAL = "equal"
SKEWED = "log-normal"

# Kind of routes: the routing, and the number of parts of each message.
ROUTES = {"static": (None, 1), "balanced": ("balanced", 1), "halves": ("balanced", 2)}

# Units of the median log-normal message. Each unit is sent as a message.
MEDIAN_UNITS = 2

# Processor time after which the search for a schedule is stopped.
LIMIT_S = 5.0

BOUND = (1.0, "the flow bound")
Route = Callable[[str, str], Sequence[LinkId]]
Pairs = list[tuple[str, str]]


def points(quick: bool, seed: int) -> Points:
    """Return the points: each network with both kinds of loads."""
    return grid(network=QUICK_NETWORKS if quick else NETWORKS, loads=(EQUAL, SKEWED), seed=seed)


def measure(point: Row) -> Results:
    """Return flow bounds, and loads and frames with each kind of routes.

    The unit of all values is the time of one message over a link.
    """
    from testbed.routing.demands.flow_bound import equal_links, flow_bound
    from testbed.scheduling.methods import schedule_by_name
    from testbed.scheduling.traffic.patterns import routes_of, traffic_of

    network = load_network(point["network"])
    pairs = _pairs_between_switches(network)
    if point["loads"] == SKEWED:
        pairs = _skewed(pairs, point["seed"])
    loads: dict[str, float] = {}
    frames: dict[str, float] = {}
    for name, (routing, parts) in ROUTES.items():
        routes = [_between_switches(network, route) for route in routes_of(network, routing, parts)]
        traffic = traffic_of(network, pairs, *routes)
        # The independent checker checks the schedule.
        schedule = schedule_by_name(
            traffic, "liquid", seed=point["seed"], time_limit_s=LIMIT_S, now=time.process_time
        )
        loads[name] = traffic.bottleneck_load / parts
        frames[name] = schedule.length / parts
    # A load that no routes exceed.
    load_limit = float(len(pairs))
    return {
        "messages": len(pairs),
        "bound": flow_bound(_with_wide_access(network), pairs, load_limit),
        "bound_with_hosts": flow_bound(equal_links(network), pairs, load_limit),
        "carried": loads,
        "frames": frames,
    }


def _pairs_between_switches(network: Network) -> Pairs:
    """Return all pairs of hosts whose route has a link between switches."""
    from testbed.scheduling.traffic.patterns import processors, routes_of

    senders, receivers = processors(network)
    (route,) = routes_of(network, None)
    inner_route = _between_switches(network, route)
    pairs = []
    for sender in senders:
        for receiver in receivers:
            if sender != receiver and inner_route(sender, receiver):
                pairs.append((sender, receiver))
    return pairs


def _skewed(pairs: Pairs, seed: int) -> Pairs:
    """Repeat each pair once for each unit of a log-normal message of at least one unit."""
    rng = random.Random(seed)
    skewed = []
    for pair in pairs:
        units = max(1, round(MEDIAN_UNITS * rng.lognormvariate(0, 1)))
        skewed += [pair] * units
    return skewed


def _between_switches(network: Network, route: Route) -> Route:
    """Return the route without the links of the hosts."""
    switches = network.switch_ids.keys()

    def inner_route(source: str, sink: str) -> list[LinkId]:
        return [link for link in route(source, sink) if {link[0], link[1]} <= switches]

    return inner_route


def _with_wide_access(network: Network) -> Network:
    """Return the network with equal links between switches, and host links that never limit."""
    switches = network.switch_ids.keys()
    wide = float(len(network.nodes) ** 2)
    links = []
    for link in network.links:
        between_switches = {link.source, link.target} <= switches
        links.append(replace(link, capacity_bps=1.0 if between_switches else wide))
    return replace(network, links=tuple(links))


def prices(row: Row) -> dict[str, float]:
    """Return the price of each restriction.

    The prices of routes and of the hosts' links are multiples of the flow bound. The price of
    circuits is a multiple of the load of the same routes.
    """
    bound = row["bound"]
    carried = row["carried"]
    return {
        "static routes": carried["static"] / bound,
        "balanced routes": carried["balanced"] / bound,
        "in halves": carried["halves"] / bound,
        "circuits": max(row["frames"][name] / carried[name] for name in ROUTES),
        "host links": max(1.0, row["bound_with_hosts"] / bound),
    }


def judge(rows: Rows) -> Verdict:
    """Check that the bound is valid, that routes are costly, and that circuits cost little.

    With skewed loads, routes that do not consider the loads must cost more.
    """
    equal = [prices(row) for row in where(rows, loads=EQUAL)]
    skewed = [prices(row) for row in where(rows, loads=SKEWED)]
    static = statistics.median(column(equal, "static routes"))
    halves = statistics.median(column(equal, "in halves"))
    skewed_over_equal = [
        skewed_price["in halves"] / equal_price["in halves"]
        for equal_price, skewed_price in zip(equal, skewed, strict=True)
    ]
    fewest_frames = min(min(row["frames"].values()) / row["bound"] for row in rows)
    checks = [
        Claim("frames over the flow bound, least of all schedules")
        .at_least(1.0 - 1e-9, fewest_frames)
        .against(0.9, "a bound that is none"),
        Claim("frames over the load of the same routes (the price of circuits), worst")
        .at_most(1.05, max(column([*equal, *skewed], "circuits")))
        .against(static, "as dear as static routes"),
        Claim("load of balanced routes for halves over the flow bound, equal messages, median")
        .at_most(1.1, halves)
        .against(static, "as dear as static routes"),
        Claim("the same with log-normal messages over that with equal ones, median")
        .at_least(1.1, statistics.median(skewed_over_equal))
        .against(1.0, "skewed loads cost nothing more"),
    ]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Draw the prices by network and loads."""
    samples = {}
    for row in rows:
        network, _, _ = row["network"].partition("=")
        for name, price in prices(row).items():
            samples[name, f"{network}, {row['loads']}"] = (price, 0.0)
    figure = draw_bars(
        "What restrictions cost", samples, y="multiple of the flow bound", claim=BOUND
    )
    return {"prices": figure}


STUDY = Study.of_module(
    __name__,
    name="schedules_price",
    title="What each restriction of a schedule costs, as a share of the flow bound",
    answers="not in the documents: Gabrielyan 2007 takes routes and whole messages as given (3.4)",
    deviations=(
        "Links between switches count alike, whatever their capacity; traffic within a switch is "
        "left out.",
        "Log-normal messages are whole units, 2 in the middle and 1 at least; each unit is sent by "
        "itself.",
        "Left out: multicast, allgather and reductions (ForestColl settles them), MSCCL++.",
    ),
)
