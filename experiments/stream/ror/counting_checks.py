"""Is N, as the policy claims it, the number of packets that a receiver needs: enough, and not one too many?

The rival of N is N - 1, counted on the same packets.
"""

import math
from collections.abc import Iterator

from fec.redundancy.block_size import binomial_interval
from testbed.model.studies import Check, Claim, Results, Row, Rows, Verdict, where
from testbed.report.drawing.charts import BLUE, INK, chart

RATES = (1e-1, 1e-2, 1e-3)
"""Decoding error rates that can be counted."""
ALLOWED = {1e-1: 0.1, 1e-2: 0.2, 1e-3: 0.3}
"""What the count of short blocks may be off equation 25, of what it expects; N - 1 is off by half and more."""
RARE, RARE_ALLOWED = 1e-5, 0.1
"""The document's error rate, of importance sampling: the mean over links may be off equation 25 by so much."""
Z95 = 1.96
ONE_FEWER = "one packet a block fewer, counted on the same packets"


def judge_counts(rows: Rows) -> Verdict:
    """Stratified labels link by link, random ones by error rate; a network that has no row is not judged."""
    stratified, random = (where(rows, labels=labels) for labels in ("stratified", "random"))
    checks = _worst_windows(stratified) if stratified else []
    judged = [rate for rate in RATES if _expected(random, rate) >= (2 * Z95 / ALLOWED[rate]) ** 2]
    checks += [_share_of_equation(random, rate) for rate in judged]
    left_out = [rate for rate in RATES if random and rate not in judged]
    few = [f"random labels, error rate {rate:g}: too few blocks to tell" for rate in left_out]
    weighed = [
        pair
        for row in random
        for pair in zip(row.get("load", ()), row.get("rare", ()), strict=False)
    ]
    rare = [
        one for load, one in weighed if one["lost"] > load
    ]  # else any further failure takes every path
    return Verdict.of([*checks, _rare_share(rare)] if rare else checks, few)


def _expected(rows: Rows, rate: float) -> float:
    """How many blocks of N packets equation 25 expects to be short."""
    return math.fsum(one["allowed"][0] for one in links_of(rows, RATES.index(rate)))


def links_of(rows: Rows, at: int = 0) -> Iterator[Row]:
    """Every failed link of every route with the figures of the error rate at that index of ``RATES`` (stratified
    labels: 0), but for those of so few labels that N is M and N - 1 is none."""
    for row in rows:
        for number, load in enumerate(row.get("load", ())):
            own = {
                name: row[name][number][at]
                for name in ("claimed", "counted", "short", "blocks", "allowed")
            }
            if len(own["short"]) > 1:
                yield {
                    "network": row["network"],
                    "link": row["link"][number],
                    "load": load,
                    "base": row["base"],
                } | own


def _worst_windows(rows: Rows) -> list[Check]:
    links = list(links_of(rows))
    seen, blocks = len(links), sum(one["blocks"][0] for one in links)
    equal, fewer_claimed = (
        sum(one["counted"] == one["claimed"] - less for one in links) / max(1, seen)
        for less in range(2)
    )
    short = [[one["short"][less] for one in links] for less in range(2)]
    needed = [one for one in links if one["claimed"] > one["base"]]
    claimed, counted, fewer = (
        math.fsum((one[name] - less) / one["base"] - 1 for one in needed)
        for name, less in (("claimed", 0), ("counted", 0), ("claimed", 1))
    )
    return [
        Claim(
            "stratified labels: failed links for which the N that was counted is the one claimed, share"
        )
        .at_least(1.0, equal)
        .against(fewer_claimed, "N - 1 claimed for every link")
        .noting(f"{seen} links")
        .of(seen),
        Claim("stratified labels: blocks that cannot be decoded with N packets")
        .equal(0, sum(short[0]))
        .against(sum(short[1]), ONE_FEWER)
        .noting(
            f"of {blocks} blocks: below {binomial_interval(sum(short[0]), max(1, blocks), 0.95)[1]:.2%} (95 %)"
        )
        .of(blocks),
        Claim("stratified labels: failed links that lose blocks with N - 1 packets, share")
        .at_least(0.9, sum(n > 0 for n in short[1]) / max(1, seen))
        .against(
            sum(n > 0 for n in short[0]) / max(1, seen), "N itself, counted on the same packets"
        )
        .noting(
            "N holds for blocks in any phase; blocks laid one after another need not meet the worst"
        )
        .of(seen),
        Claim(
            "stratified labels: ROR of the N counted over ROR of the N claimed, all routes together"
        )
        .equal(1.0, counted / (claimed or 1.0), 0.005)
        .against(fewer / (claimed or 1.0), "N - 1 for every failure")
        .noting(f"ROR {claimed:.2f} claimed over {len(rows)} routes")
        .of(len(needed)),
    ]


def _share_of_equation(rows: Rows, rate: float) -> Check:
    links = list(links_of(rows, RATES.index(rate)))
    short, allowed = (
        [math.fsum(one[name][less] for one in links) for less in range(2)]
        for name in ("short", "allowed")
    )
    blocks = sum(one["blocks"][0] for one in links)
    return (
        Claim(
            f"random labels, N of error rate {rate:g}: short blocks over those that equation 25 expects"
        )
        .equal(1.0, short[0] / (allowed[0] or 1.0), ALLOWED[rate])
        .plus_minus(Z95 * math.sqrt(short[0]) / (allowed[0] or 1.0))
        .against(short[1] / (allowed[0] or 1.0), ONE_FEWER)
        .noting(f"{short[0]:.0f} of {blocks} blocks, {allowed[0]:.0f} expected; {len(links)} links")
        .of(allowed[0])
    )


def _rare_share(links: Rows) -> Check:
    """Each link's share counts alike, over what equation 25 expects of it; more links have independent errors."""
    ratios = [[share / one["expected"][0] for share in one["share"]] for one in links]
    errors = [one["error"][0] / one["expected"][0] for one in links]
    mean = math.fsum(own for own, _ in ratios) / len(links)
    return (
        Claim(
            f"random labels, N of error rate {RARE:g}: short blocks, weighted, over those that equation 25 expects"
        )
        .equal(1.0, mean, RARE_ALLOWED)
        .plus_minus(Z95 * math.hypot(*errors) / len(links))
        .against(
            min(fewer for _, fewer in ratios),
            "one packet a block fewer, for the link that it harms least",
        )
        .noting(
            f"{len(links)} links, {min(one['lost'] for one in links):.2g} of the packets lost or more"
        )
        .of(len(links))
    )


def counting_figures(rows: Rows) -> Results:
    """``counted_block_sizes``, of stratified labels."""
    x, y = "packets a block, claimed", "packets a block, counted"
    sizes, axes = chart("stratified labels", xlabel=x, ylabel=y)
    links = list(links_of(where(rows, labels="stratified")))
    claimed = [link["claimed"] for link in links]
    span = [min(claimed, default=20) - 1, max(claimed, default=21) + 1]
    axes.plot(span, span, "--", color=INK, label="as claimed")
    axes.plot(
        claimed,
        [link["counted"] for link in links],
        "o",
        color=BLUE,
        label=f"{len(links)} failed links",
    )
    axes.legend(loc="upper left")
    return {"counted_block_sizes": sizes}
