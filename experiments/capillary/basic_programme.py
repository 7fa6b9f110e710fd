"""The basic linear programme of section 4.2.1: which links may be fixed after a layer, and where its digits end."""

from collections.abc import Iterator

from experiments.capillary.mobile_pairs import mobile_pair
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
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import draw_bars, draw_lines
from testbed.routing import capillary_route
from testbed.routing.capillary.thesis_loop import hunt_layers
from topologies import Link, Network, Node

FORMS = {
    "full": "basic, all full links fixed",
    "priced": "basic, links with a price fixed",
    "hunted": "basic, hunting loop",
    "stable": "stable form, hunting loop",
}
DEPTHS = range(1, 13)
TINY = 1e-7
"""Loads below this are tiny: HiGHS meets constraints to 1e-7."""
WRONG = 1e-6
"""A load is wrong that is off by more than this share of the exact one."""


def points(quick: bool, seed: int) -> Points:
    """Mobile networks of 115 nodes, then the example nested into itself 1 to 12 times; each by every rule."""
    networks = [f"mobile {seed + k}" for k in range(3 if quick else 36)]
    networks += [f"nested {depth}" for depth in DEPTHS]
    return grid(network=networks, form=FORMS)


def nested_example(depth: int) -> Network:
    """The thesis' example (``capillary-layers``), its link b->c replaced by another copy, and so on: the least load is
    12^-depth."""
    links: list[Link] = []
    nodes = ["s", "t"]
    for source, sink, level in _copies(depth):
        a, b, c, d = (f"{name}{level}" for name in "abcd")
        nodes += [a, b, c, d]
        ends = [(source, a), (source, b), (a, c), (a, d), (b, d), (b, sink), (c, sink), (d, sink)]
        links += [Link(source=x, target=y) for x, y in ends + ([(b, c)] if level == depth else [])]
    switches = tuple(Node(id=name, kind="switch") for name in nodes)
    return Network(name=f"nested-{depth}", nodes=switches, links=tuple(links))


def _copies(depth: int) -> Iterator[tuple[str, str, int]]:
    """(source, sink, level) of each copy."""
    yield "s", "t", 1
    for level in range(1, depth):
        yield f"b{level}", f"c{level}", level + 1


def measure(point: Row) -> Results:
    """How many of the exact route's links got a wrong load or none, each layer's load and greatest relative error, why
    it ended."""
    kind, number = point["network"].split()
    if kind == "mobile":
        network, source, sink = mobile_pair(115, int(number))
    else:
        network, source, sink = nested_example(int(number)), "s", "t"
    exact = capillary_route(network, source, sink)
    form = None if point["form"] == "stable" else point["form"]
    hunted = hunt_layers(network, source, sink, basic=form)
    loads, layers = hunted.loads, [layer.bottlenecks for layer in hunted.layers]
    true = [float(load) for load in exact.loads]
    return {
        "links": len(exact.loaded),
        "wrong": sum(abs(a - b) > WRONG * b for a, b in zip(loads, true, strict=True)),
        "first_layer": set(layers[0]) == {i for i, at in enumerate(exact.link_layers) if at == 1}
        if layers
        else False,
        "least_load": float(exact.layers[-1].load),
        "errors": [
            [
                loads[links[0]],
                max((abs(loads[i] - true[i]) / true[i] for i in links if true[i]), default=1.0),
            ]
            for links in layers
        ],
        "failure": hunted.failure,
    }


def judge(rows: Rows) -> Verdict:
    """Full links are not bottlenecks; the other two rules are right while loads are large; only the stable form is
    where they are tiny."""
    mobile = {
        form: [r for r in where(rows, form=form) if r["network"].startswith("mobile")]
        for form in FORMS
    }
    tiny = {form: [r for r in where(rows, form=form) if r["least_load"] < TINY] for form in FORMS}
    misjudged = [float(not row["first_layer"]) for row in mobile["full"]]
    naive = float(sum_of(mobile["full"], "wrong"))
    checks = [
        Claim(
            "share of mobile networks in which the full links of layer 1 are more than its bottlenecks"
        )
        .at_least(0.9, spread(misjudged))
        .cites("bottlenecks have to be hunted for (4.2.3)")
        .against(0.0, "a link without slack is a bottleneck")
    ]
    checks += [
        Claim(f"mobile networks, {FORMS[form]}: links with a wrong load")
        .equal(0.0, sum_of(mobile[form], "wrong"))
        .against(naive, "as where all full links are fixed")
        for form in ("priced", "hunted", "stable")
    ]
    gone, spared = (
        sum(row["failure"] is not None or row["wrong"] > 0 for row in tiny[form])
        for form in ("hunted", "stable")
    )
    checks += [
        Claim(
            "nested networks with loads below 1e-7: basic programmes that end infeasible or with wrong loads"
        )
        .equal(len(tiny["hunted"]), gone)
        .cites(
            "errors reach noticeable sizes and, at tiny loads, result in infeasible LP problems (page 69)"
        )
        .against(spared, "as the stable form"),
        Claim("nested networks with loads below 1e-7, stable form: links with a wrong load")
        .equal(0.0, sum_of(tiny["stable"], "wrong"))
        .cites("very stable even for very deep layers with tiny loads (page 70)")
        .against(sum_of(tiny["hunted"], "wrong"), "as the basic programme"),
    ]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Links with a wrong load by form; error of each layer against its load on the deepest nested network."""
    mobile = [row for row in rows if row["network"].startswith("mobile")]
    shares = grouped(mobile, "form", lambda row: 100 * row["wrong"] / row["links"])
    wrong = {
        ("mobile networks of 115 nodes", FORMS[form]): values for form, values in shares.items()
    }
    errors = {
        (f"{FORMS[row['form']]}{': then no solution any more' * bool(row['failure'])}", load): (
            max(error, 1e-17),
            0.0,
        )
        for row in where(rows, network=f"nested {DEPTHS[-1]}")
        for load, error in row["errors"]
        if load > 0
    }
    title, y = (
        "The example nested 12 times into itself",
        "relative error of the layer's loads (1e-17: none)",
    )
    deep = draw_lines(
        title, errors, x="load of the layer", y=y, upright=(TINY, "the solver's tolerance")
    )
    deep.axes[0].set(xscale="log", yscale="log")
    bars = draw_bars(
        "Links with a wrong load", wrong, y="links with a wrong load (% of the loaded ones)"
    )
    return {"basic-programme": bars, "basic-programme-deep": deep}


STUDY = Study.of_module(
    __name__,
    title="The basic linear programme of capillary routing, and why it is unstable",
    answers="Gabrielyan 2007, 4.2.1 to 4.2.3: the basic programme ends infeasible at tiny loads; "
    "full links are not bottlenecks",
    deviations=(
        "The document does not say which solver failed, nor on which network: the networks and HiGHS are ours.",
        "Tiny loads are made by nesting the document's example into itself: mobile networks of 115 nodes have none.",
    ),
)
