"""Tests the basic linear programme of capillary routing (Gabrielyan 2007, section 4.2.1).

After each layer the programme fixes the loads of some links. Three rules that choose these links
are compared with the exact route, and so is the stable form of the programme. Loads of deep layers
are tiny. The study shows at which loads the precision of the solver does not suffice.
"""

from collections.abc import Iterator, Sequence

from experiments.capillary.mobile_pairs import mobile_pair
from testbed.model.routes import SplitRoute
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grid,
    grouped,
    spread,
    sum_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Figure, draw_bars, draw_lines
from testbed.routing import capillary_route
from testbed.routing.capillary.thesis_loop import HuntedRoute, hunt_layers
from topologies import Link, Network, Node

FORMS = {
    "full": "basic, all full links fixed",
    "priced": "basic, links with a price fixed",
    "hunted": "basic, hunting loop",
    "stable": "stable form, hunting loop",
}

# How often the document's example is nested into itself.
DEPTHS = range(1, 13)

# Loads below this are tiny, because HiGHS satisfies constraints with an error of up to 1e-7.
TINY = 1e-7

# A load is wrong if it differs from the exact one by more than this fraction of it.
WRONG = 1e-6

# Errors of 0 are drawn at this value on a logarithmic axis.
NO_ERROR = 1e-17


def points(quick: bool, seed: int) -> Points:
    """Return every form on 36 mobile networks (``quick``: 3) and on the nested networks."""
    networks = []
    for k in range(3 if quick else 36):
        networks.append(f"mobile {seed + k}")
    for depth in DEPTHS:
        networks.append(f"nested {depth}")
    return grid(network=networks, form=FORMS)


def nested_example(depth: int) -> Network:
    """Return the document's example (``capillary-layers``), nested into itself.

    The link from b to c of each copy is replaced by the next copy. The smallest load is
    12^-depth.

    Args:
        depth: Number of copies.
    """
    links: list[Link] = []
    nodes = ["s", "t"]
    for source, sink, level in _copies(depth):
        a = f"a{level}"
        b = f"b{level}"
        c = f"c{level}"
        d = f"d{level}"
        nodes += [a, b, c, d]
        ends = [(source, a), (source, b), (a, c), (a, d), (b, d), (b, sink), (c, sink), (d, sink)]
        if level == depth:
            ends.append((b, c))
        for start, end in ends:
            links.append(Link(source=start, target=end))
    switches = tuple(Node(id=name, kind="switch") for name in nodes)
    return Network(name=f"nested-{depth}", nodes=switches, links=tuple(links))


def _copies(depth: int) -> Iterator[tuple[str, str, int]]:
    """Yield the source, the sink and the level of each copy."""
    yield "s", "t", 1
    for level in range(1, depth):
        yield f"b{level}", f"c{level}", level + 1


def measure(point: Row) -> Results:
    """Compare the loads of a form of the programme with those of the exact route.

    Returns:
        The number of loaded links and of wrong loads; whether the links of layer 1 are its
        bottlenecks (``first_layer``); the smallest load; the load and the largest relative error
        of each layer (``errors``); and why the programme ended early, or None (``failure``).
    """
    network, source, sink = _network(point["network"])
    exact = capillary_route(network, source, sink)
    form = None if point["form"] == "stable" else point["form"]
    hunted = hunt_layers(network, source, sink, basic=form)
    exact_loads = list(map(float, exact.loads))

    wrong = 0
    for load, exact_load in zip(hunted.loads, exact_loads, strict=True):
        if abs(load - exact_load) > WRONG * exact_load:
            wrong += 1
    errors = []
    for layer in hunted.layers:
        layer_load = hunted.loads[layer.bottlenecks[0]]
        error = _largest_error(hunted.loads, exact_loads, layer.bottlenecks)
        errors.append([layer_load, error])
    return {
        "links": len(exact.loaded),
        "wrong": wrong,
        "first_layer": _same_first_layer(hunted, exact),
        "least_load": float(exact.layers[-1].load),
        "errors": errors,
        "failure": hunted.failure,
    }


def _network(name: str) -> tuple[Network, str, str]:
    """Return the network of a point, its source and its sink."""
    kind, number = name.split()
    if kind == "mobile":
        return mobile_pair(115, int(number))
    return nested_example(int(number)), "s", "t"


def _same_first_layer(hunted: HuntedRoute, exact: SplitRoute) -> bool:
    """Return whether the links of layer 1 are the bottlenecks of the exact route."""
    if not hunted.layers:
        return False
    bottlenecks = {link for link, layer in enumerate(exact.link_layers) if layer == 1}
    return set(hunted.layers[0].bottlenecks) == bottlenecks


def _largest_error(
    loads: Sequence[float], exact_loads: Sequence[float], links: Sequence[int]
) -> float:
    """Return the largest relative error of the loads of links, or 1 if no link has a load."""
    errors = []
    for link in links:
        if exact_loads[link]:
            errors.append(abs(loads[link] - exact_loads[link]) / exact_loads[link])
    return max(errors, default=1.0)


def judge(rows: Rows) -> Verdict:
    """Check which forms of the programme are correct.

    Full links are not always bottlenecks. The other two rules are correct while loads are large.
    Only the stable form is correct when loads are tiny.
    """
    full = _mobile_rows(rows, "full")
    misjudged = [float(not row["first_layer"]) for row in full]
    checks = [
        Claim(
            "share of mobile networks "
            "in which the full links of layer 1 are more than its bottlenecks"
        )
        .at_least(0.9, spread(misjudged))
        .cites("bottlenecks have to be hunted for (4.2.3)")
        .against(0.0, "a link without slack is a bottleneck")
    ]
    wrong_if_full = float(sum_of(full, "wrong"))
    for form in ("priced", "hunted", "stable"):
        wrong = sum_of(_mobile_rows(rows, form), "wrong")
        checks.append(
            Claim(f"mobile networks, {FORMS[form]}: links with a wrong load")
            .equal(0.0, wrong)
            .against(wrong_if_full, "as where all full links are fixed")
        )
    return Verdict.of([*checks, *_tiny_load_checks(rows)])


def _mobile_rows(rows: Rows, form: str) -> Rows:
    return _on_mobile_networks(where(rows, form=form))


def _on_mobile_networks(rows: Rows) -> Rows:
    return [row for row in rows if row["network"].startswith("mobile")]


def _tiny_load_checks(rows: Rows) -> list[Check]:
    """Check the basic programme and the stable form on networks with tiny loads."""
    hunted = _tiny_load_rows(rows, "hunted")
    stable = _tiny_load_rows(rows, "stable")
    return [
        Claim(
            "nested networks with loads below 1e-7: "
            "basic programmes that end infeasible or with wrong loads"
        )
        .equal(len(hunted), _count_failures(hunted))
        .cites(
            "errors reach noticeable sizes and, at tiny loads, "
            "result in infeasible LP problems (page 69)"
        )
        .against(_count_failures(stable), "as the stable form"),
        Claim("nested networks with loads below 1e-7, stable form: links with a wrong load")
        .equal(0.0, sum_of(stable, "wrong"))
        .cites("very stable even for very deep layers with tiny loads (page 70)")
        .against(sum_of(hunted, "wrong"), "as the basic programme"),
    ]


def _tiny_load_rows(rows: Rows, form: str) -> Rows:
    return [row for row in where(rows, form=form) if row["least_load"] < TINY]


def _count_failures(rows: Rows) -> int:
    """Return the number of programmes that ended early or with a wrong load."""
    count = 0
    for row in rows:
        if row["failure"] is not None or row["wrong"] > 0:
            count += 1
    return count


def figures(rows: Rows) -> Figures:
    """Draw the wrong loads by form, and the errors of layers on the deepest nested network."""
    percentages = grouped(_on_mobile_networks(rows), "form", _wrong_percentage)
    samples = {}
    for form, values in percentages.items():
        samples["mobile networks of 115 nodes", FORMS[form]] = values
    wrong_loads = draw_bars(
        "Links with a wrong load", samples, y="links with a wrong load (% of the loaded ones)"
    )
    deepest = where(rows, network=f"nested {DEPTHS[-1]}")
    return {"basic-programme": wrong_loads, "basic-programme-deep": _draw_errors(deepest)}


def _wrong_percentage(row: Row) -> float:
    return float(100 * row["wrong"] / row["links"])


def _draw_errors(rows: Rows) -> Figure:
    """Draw the relative error of each layer against the layer's load."""
    samples = {}
    for row in rows:
        label = FORMS[row["form"]]
        if row["failure"]:
            label += ": then no solution any more"
        for load, error in row["errors"]:
            if load > 0:
                samples[label, load] = (max(error, NO_ERROR), 0.0)
    figure = draw_lines(
        "The example nested 12 times into itself",
        samples,
        x="load of the layer",
        y="relative error of the layer's loads (1e-17: none)",
        upright=(TINY, "the solver's tolerance"),
    )
    figure.axes[0].set(xscale="log", yscale="log")
    return figure


STUDY = Study.of_module(
    __name__,
    title="The basic linear programme of capillary routing, and why it is unstable",
    answers="Gabrielyan 2007, 4.2.1 to 4.2.3: the basic programme ends infeasible at tiny loads; "
    "full links are not bottlenecks",
    deviations=(
        "The document does not say which solver failed, nor on which network: "
        "the networks and HiGHS are ours.",
        "Tiny loads are created by nesting the document's example into itself: "
        "mobile networks of 115 nodes have none.",
    ),
)
