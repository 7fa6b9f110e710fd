"""Codes without feedback next to the documents' adaptive one, in virtual time: residual loss, delay until decoded,
redundancy.

A stream of source packets goes over a capillary route under stratified labels; one link fails for a time. At one
budget, seven repair packets on 23 source packets: RS(30,23), and random linear codes over sliding windows (RFC 8681).
Beside them the documents' code: M = 20, a base of 22 packets, more once a report has told of the loss. All of it is
coded and decoded as real bytes.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from testbed.model.label_split import LabelSplit
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import GREY, chart

FLOWS = {
    "swiss-t1": ("s1", "s6"),
    "optical-cloud": ("x1", "x14"),
    "torus:4x4": ("s0_0", "s2_1"),
    "manet:nodes=30,seed=3": ("n0", "n29"),
}
CHANNELS = (0.02, 0.05, 0.1, 0.2)
"""Independent losses, all the time."""
SOURCE, BLOCK = 23, 30
CODES = ("rs:30,23", "rlc:23", "rlc:46", "adaptive")
M, BASE, DER, REPORT_S = 20, 22, 1e-5, 0.1
RATE_PPS, PACKETS, FAULT_S, BYTES = 200.0, 1200, (2.0, 4.0), 16
BUDGET = (BLOCK - SOURCE) / BLOCK
"""Of all packets: the loss that the budget could carry if it were even."""
LESS, SOONER, ANSWERED = 0.9, 0.8, 0.2
Lost = Callable[[int, float], bool]
"""Of packet number, sent at a time."""
Sent = Iterator[tuple[float, int, bytes | None, Mapping[int, bytes]]]
"""Time, source packet or -1, and what the receiver has by it."""


def points(quick: bool, seed: int) -> Points:
    """One a network and share of a failed link (the first link of each share), and the even channels (quick: one
    network)."""
    found: Points = []
    for name in list(FLOWS)[: 1 if quick else None]:
        split = _split(name)
        shares: dict[float, str] = {}
        for link in split.loaded:
            share = float(split.load(link))
            if 0.01 < share < 0.99:
                shares.setdefault(round(share, 2), split.network.links[link].label)
        found += [
            {"network": name, "link": link, "share": share, "seed": seed} for share, link in sorted(shares.items())
        ]
    return found + [{"network": "channel", "link": "", "share": loss, "seed": seed} for loss in CHANNELS]


@lru_cache(maxsize=8)
def _split(name: str) -> LabelSplit:
    from testbed.routing.capillary.route import capillary_route
    from testbed.routing.label_split.spraying import spray
    from topologies import load_network

    return spray(capillary_route(load_network(name), *FLOWS[name]))


def measure(point: Row) -> Results:
    """By code: source packets that were never had, of all; mean and greatest delay of those that were lost and decoded;
    redundancy."""
    chance = random.Random(f"{point['network']} {point['link']} {point['seed']}")
    data = [chance.randbytes(BYTES) for _ in range(PACKETS)]
    lost = _lost(point)
    return {code: _measured(code, data, lost, _answer(point)) for code in CODES}


def _lost(point: Row) -> Lost:
    from fec.redundancy.labels import WEYL_MULTIPLIER, stratified_labels

    if point["network"] == "channel":
        return lambda number, _: random.Random(f"{point['seed']} {number}").random() < point["share"]
    split, labels = _split(point["network"]), stratified_labels(WEYL_MULTIPLIER)
    dead = next(i for i in split.loaded if split.network.links[i].label == point["link"])
    intervals = split.intervals(dead)

    def failed(number: int, at_s: float) -> bool:
        label = labels.label(number)
        return FAULT_S[0] <= at_s < FAULT_S[1] and any(low <= label < high for low, high in intervals)

    return failed


def _measured(code: str, data: Sequence[bytes], lost: Lost, answer: Callable[[float], int]) -> Results:
    kind, _, number = code.partition(":")
    if kind == "rlc":
        run = _window(data, int(number), lost)
    elif kind == "rs":
        run = _blocks(data, SOURCE, lambda _: BLOCK, lost)
    else:
        run = _blocks(data, M, answer, lost)
    sent: dict[int, float] = {}
    had: dict[int, float] = {}
    packets = wrong = 0
    for at_s, source, _, decoded in run:
        packets += 1
        if source >= 0:
            sent[source] = at_s
        for number_had, symbol in decoded.items():
            wrong += symbol != data[number_had]
            had.setdefault(number_had, at_s)
    delays = [had[i] - sent[i] for i in had if had[i] > sent[i]]
    return {
        "residual": 1 - len(had) / len(data),
        "decoded": len(delays),
        "delay_s": statistics.mean(delays) if delays else None,
        "greatest_delay_s": max(delays, default=None),
        "redundancy": packets / len(data) - 1,
        "wrong": wrong,
    }  # fmt: skip


def _answer(point: Row) -> Callable[[float], int]:
    """Packets of the block that begins at a time: the base, or what equation 25 asks for from a report after the loss
    began on."""
    from fec.redundancy.block_size import fec_block_size

    needed = max(BASE, min(255, fec_block_size(M, point["share"], DER)))
    begins, ends = (0.0, PACKETS / RATE_PPS) if point["network"] == "channel" else FAULT_S
    return lambda at_s: needed if begins + REPORT_S <= at_s < ends + REPORT_S else BASE


def _blocks(data: Sequence[bytes], size: int, length: Callable[[float], int], lost: Lost) -> Sent:
    """Blocks of ``size`` source packets and so many in all, evenly over the time that its source packets take."""
    from fec.code.reed_solomon import ReedSolomonCode

    code, number = ReedSolomonCode(source_packets=size), 0
    for start in range(0, len(data) - len(data) % size, size):
        begins = start / RATE_PPS
        count = length(begins)
        symbols = code.encode(list(data[start : start + size]), count)
        arrived: dict[int, bytes] = {}
        for place, symbol in enumerate(symbols):
            at_s = begins + place * size / RATE_PPS / count
            found: dict[int, bytes] = {}
            if not lost(number, at_s):
                arrived[place] = symbol
                if place < size:
                    found[start + place] = symbol
                if len(arrived) == size:
                    found |= {start + i: bytes(s) for i, s in enumerate(code.decode(arrived))}
            number += 1
            yield at_s, start + place if place < size else -1, symbol, found
    for rest in range(len(data) - len(data) % size, len(data)):
        yield rest / RATE_PPS, rest, data[rest], {rest: data[rest]}


def _window(data: Sequence[bytes], window: int, lost: Lost) -> Sent:
    """Seven repair packets on 23 source packets, as evenly as can be, each over the last ``window`` of them."""
    from fec.code.sliding_window import SlidingWindowDecoder, SlidingWindowEncoder

    encoder, decoder = SlidingWindowEncoder(window), SlidingWindowDecoder(3 * window)
    number, due = 0, 0
    for at, symbol in enumerate(data):
        encoder.add(symbol)
        at_s = at / RATE_PPS
        yield at_s, at, symbol, {} if lost(number, at_s) else dict(decoder.add_source(at, symbol))
        number, due = number + 1, due + BLOCK - SOURCE
        if due >= SOURCE:
            due -= SOURCE
            repair, at_s = encoder.repair(), (at + 0.5) / RATE_PPS
            yield at_s, -1, None, {} if lost(number, at_s) else dict(decoder.add_repair(repair))
            number += 1


def judge(rows: Rows) -> Verdict:
    """Right bytes; at one budget windows lose less and decode sooner than blocks; who answers a failure loses
    little."""
    light = [row for row in rows if row["share"] < BUDGET]
    heavy = [row for row in rows if row["share"] >= BUDGET and row["network"] != "channel"]
    delays = [(row["rlc:23"]["delay_s"], row["rs:30,23"]["delay_s"]) for row in rows]
    checks = [
        Claim("packets decoded to other bytes")
        .count(0, sum(row[code]["wrong"] for row in rows for code in CODES), "none: a count of errors")
        .noting(f"{len(rows)} faults and channels"),
        Claim("residual loss of rlc:46 over RS(30,23)'s, sums over losses that the budget could carry")
        .at_most(LESS, _total(light, "rlc:46") / max(_total(light, "rs:30,23"), 1e-12))
        .against(1.0, "a window loses as much as a block of the same budget")
        .noting(f"{len(light)} faults and channels"),
        Claim("delay of decoded packets, rlc:23 over RS(30,23), median")
        .at_most(SOONER, statistics.median(window / block for window, block in delays if window and block))
        .against(1.0, "a window decodes no sooner than a block"),
    ]
    if heavy:
        checks.append(
            Claim("residual loss of the adaptive code over RS(30,23)'s, sums over failures beyond the budget")
            .at_most(ANSWERED, _total(heavy, "adaptive") / max(_total(heavy, "rs:30,23"), 1e-12))
            .against(1.0, "a sender that answers nothing")
            .noting(f"{len(heavy)} failures")
        )
    return Verdict.of(checks, _notes(rows))


def _total(rows: Rows, code: str) -> float:
    return float(sum(row[code]["residual"] for row in rows))


def _notes(rows: Rows) -> list[str]:
    found = []
    groups = {
        "failures within the budget": [r for r in rows if r["network"] != "channel" and r["share"] < BUDGET],
        "failures beyond it": [r for r in rows if r["network"] != "channel" and r["share"] >= BUDGET],
    } | {f"even loss of {r['share']:g}": [r] for r in where(rows, network="channel")}
    for name, own in groups.items():
        if not own:
            continue
        cells = []
        for code in CODES:
            delays = [row[code]["delay_s"] for row in own if row[code]["delay_s"] is not None]
            late = f"{1000 * statistics.mean(delays):.0f} ms" if delays else "none decoded"
            cells.append(
                f"{code} loses {100 * statistics.mean(row[code]['residual'] for row in own):.2f} %, {late}, "
                f"redundancy {statistics.mean(row[code]['redundancy'] for row in own):.3f}"
            )
        found.append(f"{name} ({len(own)}): {'; '.join(cells)}")
    return found


def figures(rows: Rows) -> Figures:
    """Residual loss over the share of the failed link, by code."""
    figure, axes = chart(
        "One link down for a third of the run, capillary routes",
        size=(9, 4.4),
        xscale="log",
        yscale="log",
        xlabel="share of the failed link (dotted: what the budget could carry)",
        ylabel="source packets never had, % of a run (0.01: none)",
    )
    own = sorted((row for row in rows if row["network"] != "channel"), key=lambda row: row["share"])
    for code, mark in zip(CODES, ("s", "^", "v", "o"), strict=True):
        values = [max(100 * row[code]["residual"], 0.01) for row in own]
        axes.plot([row["share"] for row in own], values, mark, label=code, markersize=5, alpha=0.8)
    axes.axvline(BUDGET, color=GREY, linestyle=":", linewidth=1)
    axes.legend()
    return {"codes": figure}


STUDY = Study.of_module(
    __name__,
    name="comparers_coding",
    title="Codes of other authors beside adaptive Reed-Solomon",
    answers="Gabrielyan 2007, section 4.1, compares with a static code; sliding windows are not in the documents",
    deviations=(
        "In virtual time, no delay on the way; a report tells of a failure and its end 0.1 s later, always rightly.",
        "The adaptive code is a model of the documents': base 22 for 20, then equation 25 for the failed share.",
        "RLC in GF(2^8), density threshold 15, windows of 23 and 46 source packets; the decoder keeps three windows.",
    ),
)
