"""What each restriction of a schedule costs, as a multiple of the flow bound: the least time that any routes and any
parts of messages allow between the switches.

Restrictions: one static route a pair, one route of a routing that balances loads, the same for the halves of each
message; then circuits, by which a link carries one message at a time in frames that all share; and the hosts' own
links. All send to all, equal messages or log-normal ones (sigma 1). Multicast, allgather and reductions, which have
optimal schedules of their own (ForestColl, arXiv 2402.06787), and MSCCL++ are left out.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

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

QUICK = (
    "torus:4x4", "hypercube:4", "kautz:20,4", "dragonfly:2,1,1", "swiss-t1:allocation=2-2-2-2-0-0-0-0",
    "gpu-machines:2,4",
)  # fmt: skip
NETWORKS = (*QUICK, "torus:8x8", "dragonfly:4,2,2", "swiss-t1")
EQUAL, SKEWED = "equal", "log-normal"
ROUTES = {"static": (None, 1), "balanced": ("balanced", 1), "halves": ("balanced", 2)}
"""Name -> routing and parts of a message."""
UNITS, LIMIT_S = 2, 5.0
"""Whole units of a middling log-normal message; processor seconds after which a search for a schedule is stopped."""
BOUND = (1.0, "the flow bound")
Route = Callable[[str, str], Sequence[LinkId]]


def points(quick: bool, seed: int) -> Points:
    """Each network with both kinds of loads."""
    return grid(network=QUICK if quick else NETWORKS, loads=(EQUAL, SKEWED), seed=seed)


def measure(point: Row) -> Results:
    """Flow bounds, and loads and frames by each kind of routes, in units of messages over a link."""
    from testbed.routing.demands.flow_bound import equal_links, flow_bound
    from testbed.scheduling.methods import schedule_by_name
    from testbed.scheduling.traffic.patterns import processors, routes_of, traffic_of

    network = load_network(point["network"])
    senders, receivers = processors(network)
    own = routes_of(network, None)[0]
    pairs = [(a, b) for a in senders for b in receivers if a != b and _between(network, own)(a, b)]
    if point["loads"] == SKEWED:
        chance = random.Random(point["seed"])
        pairs = [
            one for one in pairs for _ in range(max(1, round(UNITS * chance.lognormvariate(0, 1))))
        ]
    loads, frames = dict[str, float](), dict[str, float]()
    for name, (routing, parts) in ROUTES.items():
        traffic = traffic_of(
            network, pairs, *(_between(network, one) for one in routes_of(network, routing, parts))
        )
        schedule = schedule_by_name(
            traffic, "liquid", seed=point["seed"], time_limit_s=LIMIT_S, now=time.process_time
        )  # checked by the independent checker
        loads[name], frames[name] = traffic.bottleneck_load / parts, schedule.length / parts
    most = float(len(pairs))
    bounds = [flow_bound(one, pairs, most) for one in (_wide_access(network), equal_links(network))]
    return {
        "messages": len(pairs),
        "bound": bounds[0],
        "bound_with_hosts": bounds[1],
        "carried": loads,
        "frames": frames,
    }


def _between(network: Network, route: Route) -> Route:
    """The route without the hosts' own links."""
    inner = network.switch_ids.keys()
    return lambda a, b: [link for link in route(a, b) if {link[0], link[1]} <= inner]


def _wide_access(network: Network) -> Network:
    """Links between switches of one capacity, and hosts' own that hold nothing back."""
    inner, wide = network.switch_ids.keys(), float(len(network.nodes) ** 2)
    links = (
        replace(one, capacity_bps=1.0 if {one.source, one.target} <= inner else wide)
        for one in network.links
    )
    return replace(network, links=tuple(links))


def prices(row: Row) -> dict[str, float]:
    """Restriction -> its price: the routes' and the hosts' over the bound, that of circuits over the routes' load."""
    found = {
        f"{name} routes" if name != "halves" else "in halves": row["carried"][name] / row["bound"]
        for name in ROUTES
    }
    found["circuits"] = max(row["frames"][name] / row["carried"][name] for name in ROUTES)
    return found | {"host links": max(1.0, row["bound_with_hosts"] / row["bound"])}


def judge(rows: Rows) -> Verdict:
    """Sound; routes cost what is lost, circuits hardly anything; routes that mind no loads cost more with skewed
    ones."""
    equal, skewed = ([prices(row) for row in where(rows, loads=kind)] for kind in (EQUAL, SKEWED))
    static, halves = (
        statistics.median(one[name] for one in equal) for name in ("static routes", "in halves")
    )
    added = statistics.median(
        b["in halves"] / a["in halves"] for a, b in zip(equal, skewed, strict=True)
    )
    least = min(frames / row["bound"] for row in rows for frames in row["frames"].values())
    checks = [
        Claim("frames over the flow bound, least of all schedules")
        .at_least(1.0 - 1e-9, least)
        .against(0.9, "a bound that is none"),
        Claim("frames over the load of the same routes (the price of circuits), worst")
        .at_most(1.05, max(one["circuits"] for one in (*equal, *skewed)))
        .against(static, "as dear as static routes"),
        Claim("load of balanced routes for halves over the flow bound, equal messages, median")
        .at_most(1.1, halves)
        .against(static, "as dear as static routes"),
        Claim("the same with log-normal messages over that with equal ones, median")
        .at_least(1.1, added)
        .against(1.0, "skewed loads cost nothing more"),
    ]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Prices by network and loads."""
    samples = {
        (name, f"{row['network'].partition('=')[0]}, {row['loads']}"): (price, 0.0)
        for row in rows
        for name, price in prices(row).items()
    }
    return {
        "prices": draw_bars(
            "What restrictions cost", samples, y="multiple of the flow bound", claim=BOUND
        )
    }


STUDY = Study.of_module(
    __name__,
    name="schedules_price",
    title="What each restriction of a schedule costs, as a share of the flow bound",
    answers="not in the documents: Gabrielyan 2007 takes routes and whole messages as given (3.4)",
    deviations=(
        "Links between switches count alike, whatever their capacity; traffic within a switch is left out.",
        "Log-normal messages are whole units, 2 in the middle and 1 at least; each unit is sent by itself.",
        "Left out: multicast, allgather and reductions (ForestColl settles them), MSCCL++.",
    ),
)
