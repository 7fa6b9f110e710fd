"""Checks of the block sizes N that the sender's policy claims: enough, and not one too many.

The rival of N is N - 1, counted on the same packets.
"""

import math
from collections.abc import Iterator, Sequence

from fec.redundancy.block_size import binomial_interval
from testbed.model.studies import Check, Claim, Results, Row, Rows, Verdict, where
from testbed.report.drawing.charts import BLUE, INK, chart

# Decoding error rates that can be counted.
RATES = (1e-1, 1e-2, 1e-3)

# Largest relative difference from equation 25 of the number of short blocks, by error rate. N - 1
# differs by half and more.
ALLOWED = {1e-1: 0.1, 1e-2: 0.2, 1e-3: 0.3}

# The document's error rate, which is estimated by importance sampling, and the largest relative
# difference from equation 25 of the mean over links.
RARE = 1e-5
RARE_ALLOWED = 0.1

Z95 = 1.96
ONE_FEWER = "one packet a block fewer, counted on the same packets"

# The fields of a row that contain a value per error rate for each failed link.
_FIGURES = ("claimed", "counted", "short", "blocks", "allowed")


def judge_counts(rows: Rows) -> Verdict:
    """Check stratified labels link by link, and random ones by error rate.

    Networks without rows are not judged. A note names the error rates with too few blocks.
    """
    stratified = where(rows, labels="stratified")
    random = where(rows, labels="random")
    checks = []
    notes = []
    if stratified:
        checks += _stratified_checks(stratified)
    if random:
        for rate in RATES:
            # With enough short blocks, half the interval's width is at most half the tolerance.
            enough = (2 * Z95 / ALLOWED[rate]) ** 2
            if _expected_short_blocks(random, rate) >= enough:
                checks.append(_check_random(random, rate))
            else:
                notes.append(f"random labels, error rate {rate:g}: too few blocks to tell")
    rare_links = _rare_links(random)
    if rare_links:
        checks.append(_check_rare(rare_links))
    return Verdict.of(checks, notes)


def _rare_links(rows: Rows) -> list[Row]:
    """Return the estimates at the error rate RARE, of links for which more links could be down.

    For the others, any further failure takes every path.
    """
    links = []
    for row in rows:
        for load, link in zip(row.get("load", ()), row.get("rare", ()), strict=False):
            if link["lost"] > load:
                links.append(link)
    return links


def _expected_short_blocks(rows: Rows, rate: float) -> float:
    """Return the number of blocks of N packets that are short by equation 25."""
    return math.fsum(link["allowed"][0] for link in links_of(rows, RATES.index(rate)))


def links_of(rows: Rows, rate_index: int = 0) -> Iterator[Row]:
    """Yield the failed links of all routes, with their fields at one error rate.

    Links with so few labels that N is M are left out, because there is no N - 1.

    Args:
        rows: The rows of the routes.
        rate_index: Index of the error rate in RATES; 0 for stratified labels.
    """
    for row in rows:
        for number, load in enumerate(row.get("load", ())):
            figures = {name: row[name][number][rate_index] for name in _FIGURES}
            if len(figures["short"]) > 1:
                yield {
                    "network": row["network"],
                    "link": row["link"][number],
                    "load": load,
                    "base": row["base"],
                    **figures,
                }


def _stratified_checks(rows: Rows) -> list[Check]:
    links = list(links_of(rows))
    return [
        _check_counted_sizes(links),
        _check_short_blocks(links),
        _check_smaller_blocks(links),
        _check_ror(links, len(rows)),
    ]


def _check_counted_sizes(links: Sequence[Row]) -> Check:
    """Check that the N that was counted is the one that is claimed, for every link."""
    equal = 0
    one_fewer = 0
    for link in links:
        if link["counted"] == link["claimed"]:
            equal += 1
        elif link["counted"] == link["claimed"] - 1:
            one_fewer += 1
    count = len(links)
    return (
        Claim(
            "stratified labels: failed links for which the N that was counted "
            "is the one claimed, share"
        )
        .at_least(1.0, equal / max(1, count))
        .against(one_fewer / max(1, count), "N - 1 claimed for every link")
        .noting(f"{count} links")
        .of(count)
    )


def _check_short_blocks(links: Sequence[Row]) -> Check:
    """Check that every block can be decoded with N packets."""
    blocks = 0
    short = 0
    short_if_fewer = 0
    for link in links:
        blocks += link["blocks"][0]
        short += link["short"][0]
        short_if_fewer += link["short"][1]
    _, upper = binomial_interval(short, max(1, blocks), 0.95)
    return (
        Claim("stratified labels: blocks that cannot be decoded with N packets")
        .equal(0, short)
        .against(short_if_fewer, ONE_FEWER)
        .noting(f"of {blocks} blocks: below {upper:.2%} (95 %)")
        .of(blocks)
    )


def _check_smaller_blocks(links: Sequence[Row]) -> Check:
    """Check that N - 1 packets are not enough, for nearly every link."""
    short = 0
    short_if_fewer = 0
    for link in links:
        if link["short"][0] > 0:
            short += 1
        if link["short"][1] > 0:
            short_if_fewer += 1
    count = len(links)
    return (
        Claim("stratified labels: failed links that lose blocks with N - 1 packets, share")
        .at_least(0.9, short_if_fewer / max(1, count))
        .against(short / max(1, count), "N itself, counted on the same packets")
        .noting(
            "N holds for blocks in any phase; blocks laid one after another need not meet the worst"
        )
        .of(count)
    )


def _check_ror(links: Sequence[Row], routes: int) -> Check:
    """Check ROR with the N that was counted against ROR with the N that is claimed."""
    above_base = [link for link in links if link["claimed"] > link["base"]]
    claimed = math.fsum(link["claimed"] / link["base"] - 1 for link in above_base)
    counted = math.fsum(link["counted"] / link["base"] - 1 for link in above_base)
    fewer = math.fsum((link["claimed"] - 1) / link["base"] - 1 for link in above_base)
    return (
        Claim(
            "stratified labels: ROR of the N counted over ROR of the N claimed, all routes together"
        )
        .equal(1.0, counted / (claimed or 1.0), 0.005)
        .against(fewer / (claimed or 1.0), "N - 1 for every failure")
        .noting(f"ROR {claimed:.2f} claimed over {routes} routes")
        .of(len(above_base))
    )


def _check_random(rows: Rows, rate: float) -> Check:
    """Check the number of short blocks against equation 25 at one error rate."""
    links = list(links_of(rows, RATES.index(rate)))
    short = math.fsum(link["short"][0] for link in links)
    short_if_fewer = math.fsum(link["short"][1] for link in links)
    expected = math.fsum(link["allowed"][0] for link in links)
    blocks = sum(link["blocks"][0] for link in links)
    return (
        Claim(
            f"random labels, N of error rate {rate:g}: "
            "short blocks over those that equation 25 expects"
        )
        .equal(1.0, short / (expected or 1.0), ALLOWED[rate])
        .plus_minus(Z95 * math.sqrt(short) / (expected or 1.0))
        .against(short_if_fewer / (expected or 1.0), ONE_FEWER)
        .noting(f"{short:.0f} of {blocks} blocks, {expected:.0f} expected; {len(links)} links")
        .of(expected)
    )


def _check_rare(links: Rows) -> Check:
    """Check the estimated fraction of short blocks against equation 25 at the error rate RARE.

    Every link has the same weight. The errors of links are independent.
    """
    ratios = []
    ratios_if_fewer = []
    errors = []
    for link in links:
        expected = link["expected"][0]
        short, short_if_fewer = link["share"]
        ratios.append(short / expected)
        ratios_if_fewer.append(short_if_fewer / expected)
        errors.append(link["error"][0] / expected)
    least_lost = min(link["lost"] for link in links)
    return (
        Claim(
            f"random labels, N of error rate {RARE:g}: short blocks, weighted, "
            "over those that equation 25 expects"
        )
        .equal(1.0, math.fsum(ratios) / len(links), RARE_ALLOWED)
        .plus_minus(Z95 * math.hypot(*errors) / len(links))
        .against(min(ratios_if_fewer), "one packet a block fewer, for the link that it harms least")
        .noting(f"{len(links)} links, {least_lost:.2g} of the packets lost or more")
        .of(len(links))
    )


def counting_figures(rows: Rows) -> Results:
    """Draw the counted against the claimed block sizes of stratified labels."""
    figure, axes = chart(
        "stratified labels",
        xlabel="packets a block, claimed",
        ylabel="packets a block, counted",
    )
    claimed = []
    counted = []
    for link in links_of(where(rows, labels="stratified")):
        claimed.append(link["claimed"])
        counted.append(link["counted"])
    span = [min(claimed, default=20) - 1, max(claimed, default=21) + 1]
    axes.plot(span, span, "--", color=INK, label="as claimed")
    axes.plot(claimed, counted, "o", color=BLUE, label=f"{len(claimed)} failed links")
    axes.legend(loc="upper left")
    return {"counted_block_sizes": figure}
