"""Stratified against random packet labels: the redundancy of one route when losses are spread evenly, not by chance."""

import statistics

from experiments.capillary.mobile_pairs import mobile_pair
from testbed.model.studies.samples import half_width
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import BLUE, INK, ORANGE, panels
from testbed.routing import route_by_name
from testbed.routing.redundancy.coding import Coding, Labels
from testbed.routing.redundancy.route_ror import route_breakdown
from topologies import load_network

BLOCKS = (5, 10, 20, 50)
TOLERANCE = 0.05
MOST = 0.9
"""Of the packets that random labels need: a saving that can be distinguished from none."""
FIXED = {"swiss-t1": ("s1", "s6"), "optical-cloud": ("x1", "x14")}


def points(quick: bool, seed: int) -> Points:
    """Two fixed networks and some mobile ones of 40 nodes, for several M."""
    networks = [*FIXED, *(f"mobile {seed + k}" for k in range(1 if quick else 6))]
    return grid(network=networks, m=BLOCKS)


def measure(point: Row) -> Results:
    """Block sizes of every link that counts with both kinds of labels, and what they add up to."""
    name = point["network"]
    if name in FIXED:
        network, (source, sink) = load_network(name), FIXED[name]
    else:
        network, source, sink = mobile_pair(40, int(name.split()[1]))
    route = route_by_name(network, source, sink, "capillary")
    kinds: tuple[Labels, Labels] = ("random", "stratified")
    terms = {
        labels: route_breakdown(route, Coding(tolerance=TOLERANCE, source_packets=point["m"], labels=labels))
        for labels in kinds
    }
    counted = [i for i, term in enumerate(terms["random"].per_load) if term.block_size is not None]
    loads = [float(terms["random"].per_load[i].load) for i in counted]
    found: Results = {"source": source, "sink": sink, "load": loads}
    for labels, breakdown in terms.items():
        base = breakdown.base_block_size or 0
        sizes = [breakdown.per_load[i].block_size or base for i in counted]
        extra, ror = sum(size - base for size in sizes), None if breakdown.infinite else breakdown.ror
        found[labels] = {"base": base, "sizes": sizes, "extra": extra, "ror": ror}
    return found


def judge(rows: Rows) -> Verdict:
    """No link asks for more with stratified labels, at rest or in a failure; what ROR makes of it is a note."""
    sizes = [pair for row in rows for pair in zip(row["stratified"]["sizes"], row["random"]["sizes"], strict=True)]
    checks = [
        Claim("links whose stratified block is the longer one")
        .equal(0, sum(a > b for a, b in sizes))
        .against(sum(a < b for a, b in sizes), "as many as have the longer random block")
    ]
    notes = []
    for m in BLOCKS:
        own = where(rows, m=m)
        share = sum(r["stratified"]["extra"] for r in own) / sum(r["random"]["extra"] for r in own)
        checks.append(
            Claim(f"M = {m}: packets added over all failures, stratified over random")
            .at_most(MOST, share)
            .against(1.0, "as many as random labels need")
            .plus_minus(half_width([r["stratified"]["extra"] / r["random"]["extra"] for r in own]))
        )
        base = {labels: statistics.fmean(r[labels]["base"] for r in own) for labels in ("stratified", "random")}
        ratio = statistics.fmean(r["stratified"]["ror"] / r["random"]["ror"] for r in own)
        fec = f"M = {m}: FEC_t {base['stratified']:.1f} stratified, {base['random']:.1f} random"
        notes.append(f"{fec}; ROR (relative to FEC_t) {ratio:.2f} times that of random labels")
    return Verdict.of(checks, notes)


def figures(rows: Rows) -> Figures:
    """Block size over M against the load of the failed link, a panel an M."""
    figure, all_axes = panels(11, 7, rows=2, columns=2, sharex=True, sharey=True)
    for axes, m in zip(all_axes, BLOCKS, strict=True):
        for labels, colour, marker in (("random", ORANGE, "^"), ("stratified", BLUE, ".")):
            dots = [
                (100 * load, size / m)
                for row in rows
                if row["m"] == m
                for load, size in zip(row["load"], row[labels]["sizes"], strict=True)
            ]
            axes.plot(*zip(*dots, strict=True), marker, color=colour, alpha=0.6, label=f"{labels} labels")
        fine = list(range(5, 61))
        axes.plot(fine, [100 / (100 - k) for k in fine], "--", color=INK, linewidth=1, label="1 / (1 - r), least")
        axes.set_title(f"M = {m}")
    for axes in figure.axes[2:]:
        axes.set_xlabel("load r of the failed link (% of the packets)")
    for axes in figure.axes[::2]:
        axes.set_ylabel("block size N / M")
    figure.axes[0].legend()
    figure.suptitle("Packets that answer a link's failure: certain with stratified labels, DER 1e-5 with random ones")
    return {"labels": figure}


STUDY = Study.of_module(
    __name__,
    title="Packets that stratified labels save",
    ror_code=f"stratified and random labels, M as of each point, tolerance {TOLERANCE:.0%}, DER 1e-05",
    answers="beyond Gabrielyan 2007: labels spread evenly decode for certain with fewer packets",
    deviations=("The document's labels are random; stratified ones are ours.",),
)
