"""What the libraries below compute, over inputs of every kind, good and bad: redundancy, labels and what a sender
learns of losses; capillary routes and their certificate; the pieces of striped files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fec.redundancy import block_size, label_layout, labels, ror
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController, LossEstimator
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.loss_bursts import LossBursts
from fec.redundancy.short_blocks import ShortBlocks
from sfio_emu.layout.piece import pieces_of, striped_pieces
from sfio_emu.layout.requests import make_requests, prepare
from sfio_emu.layout.striping import Layout
from sfio_emu.settings import Settings
from testbed.routing import capillary_route
from testbed.routing.capillary.certificate import check_certificate
from testbed.routing.capillary.thesis_loop import hunt_layers, thesis_route
from tests.recorded.computed import told
from topologies import Link, Network, Node, load_network
from topologies.errors import NoPathError

SHARES = (0, 0.1, "1/3", 0.5, 0.9, 0.999, 1, 1.1, -0.1, "x", float("nan"))
INTERVALS = (
    [],
    [(0, 16384)],
    [(0, 100), (200, 300)],
    [(30000, 65536)],
    [(0, 65536)],
    [(5, 5)],
    [(-1, 3)],
    [(7, 65537)],
)
LOADS = ([0.5, 0.5], [1], [0.05], [0.04, 0.9, 1, 0.3], [], [1.2], ["1/3", Fraction(1, 4)], [-0.1])


def redundancy() -> Any:
    def slots(count: int) -> tuple[int, ...]:
        return tuple(np.random.default_rng(count).permutation(count).tolist())

    rules: tuple[Any, ...] = (labels.WEYL_MULTIPLIER, 3, 1, slots(16), slots(24))
    groups = [[(0, 16384)], [(16384, 32768)], [(32768, 65536)], [(0, 8000), (40000, 48000)]]
    return {
        "sizes": [
            told(block_size.fec_block_size, m, p, der)
            for m in (0, 1, 5, 20, 254, 255)
            for p in SHARES
            for der in (1e-5, 0.02, 0, 1)
        ],
        "chances": [
            told(block_size.decoding_failure_probability, m, n, p)
            for m, n in ((1, 1), (5, 7), (20, 19), (20, 30))
            for p in SHARES
        ],
        "windows": [
            told(block_size.stratified_block_size, i, m, rule)
            for i in INTERVALS
            for m in (1, 20)
            for rule in rules
        ],
        "at rest": [
            told(block_size.stratified_tolerance_block_size, t, m, rule)
            for t in (0.0, 0.05, 0.3, 1.0)
            for m in (1, 20)
            for rule in rules
        ],
        "errors": [
            told(block_size.window_share_error, i, n, rule)
            for i in INTERVALS
            for n in (1, 100)
            for rule in rules
        ],
        "shares": [told(block_size.order_share, i, rule) for i in INTERVALS for rule in rules],
        "enough": [
            told(block_size.stratified_window_for, i, p)
            for i in INTERVALS[:5]
            for p in (0.05, 0.01, 0.5)
        ],
        "binomial": [
            told(block_size.binomial_window_for, p, e)
            for p in (0, 0.01, 0.3, 1)
            for e in (0.05, 0.01)
        ]
        + [
            told(block_size.binomial_interval, k, n, c)
            for k, n in ((0, 10), (3, 10), (10, 10), (50, 1000), (0, 0))
            for c in (0.95, 0.999)
        ],
        "ror": [
            told(
                ror.ror_breakdown,
                loads,
                tolerance=t,
                source_packets=m,
                decoding_error_rate=1e-5,
                large_blocks=large,
            )
            for loads in LOADS
            for t in (0.05, 0, 0.25, 1)
            for m in (20, 5)
            for large in (False, True)
        ],
        "of sizes": [
            told(
                ror.ror_of_block_sizes,
                [0.5, 0.2, 1],
                sizes,
                base,
                tolerance=0.05,
                source_packets=20,
            )
            for sizes in ([40, 26, None], [20, 26, None], [40, None, None], [40, 26], [40, 19, 3])
            for base in (22, 19, 30)
        ],
        "labels": [
            [order.label(k) for k in (0, 1, 5, 65535, 65536, 10**9)]
            for order in (
                labels.RandomLabels(1),
                labels.RandomLabels(2**63),
                labels.stratified_labels(3),
                labels.stratified_labels(slots(24)),
            )
        ],
        "refused": [
            told(labels.stratified_labels, rule) for rule in (0, 2, 65536, (), (0,), (0, 0), (1, 2))
        ],
        "joined": [
            told(labels.merge_intervals, i)
            for i in ([(5, 9), (0, 5)], [(0, 3), (2, 7), (9, 9)], [(4, 8), (1, 2)])
        ],
        "layouts": [
            told(label_layout.label_layout, groups, m, t, rule)
            for m in (5, 20)
            for t in (0.05, 0.2)
            for rule in rules
        ],
        "bounds": [
            told(label_layout.block_size_bound, p, m)
            for p in (0, 0.05, 0.25, 0.99, 1)
            for m in (1, 20)
        ],
        "short": [
            [
                ShortBlocks(groups, m, rule, rest).parity(k, n)
                for k in (1, m // 2, m)
                for n in (0, m, m + 3, 28, 40, 200)
            ]
            for m in (4, 20)
            for rule in rules[:2]
            for rest in (0, 22)
        ],
        "nothing short": told(ShortBlocks, [], 20, 3),
    }


def _losses(kind: str, chance: random.Random) -> Iterator[list[bool]]:
    """Reports of 20 packets: calm, a cut, random loss, bursts, an outage."""
    for number in range(40):
        share = {
            "cut": 0.25 * (10 <= number < 25),
            "random": 0.1,
            "calm": 0.0,
            "outage": 0.0,
            "bursts": 0.0,
        }[kind]
        lost = [chance.random() < share for _ in range(20)]
        if kind == "cut" and 10 <= number < 25:
            lost = [k % 4 == 0 for k in range(20)]
        if kind == "bursts" and number % 4 == 0:
            lost[3:9] = [True] * 6
        yield [True] * 20 if kind == "outage" and 10 <= number < 14 else lost


def adaptation() -> Any:
    found: dict[str, Any] = {}
    for kind in ("cut", "random", "calm", "outage", "bursts"):
        for deterministic in (True, False):
            estimator, bursts = LossEstimator(deterministic=deterministic), LossBursts()
            rows = []
            for number, lost in enumerate(_losses(kind, random.Random(4))):
                changed = estimator.add(lost, [number + k / 20 for k in range(20)])
                bursts.add(lost)
                rows.append(
                    (
                        changed,
                        estimator.packets,
                        estimator.loss,
                        estimator.margin,
                        estimator.fell,
                        bursts.passing,
                    )
                )
            found[f"{kind}, {deterministic}"] = rows
        for more in (
            {},
            {"apart_s": 0.4},
            {"bursts_pass": True},
            {"hold_s": 0.5, "largest": 30},
            {"deterministic": False},
        ):
            controller = BlockSizeController(
                AdaptationParameters(base=22, **more), lambda p: 20 + round(40 * p)
            )
            sizes = []
            for number, lost in enumerate(_losses(kind, random.Random(4))):
                now = 0.1 * number + (2.0 if number > 30 else 0.0)
                reports = [PacketReport(k, gone, now + k / 200) for k, gone in enumerate(lost)]
                random.Random(number).shuffle(reports)
                controller.on_packet_reports(
                    reports if "apart_s" in more else sorted(reports, key=lambda r: r.sent_s),
                    now + 0.1,
                )
                sizes.append((controller.block_size_at(now), round(controller.loss, 6)))
            found[f"{kind}, {more}"] = sizes
    bad = (
        {"base": 0},
        {"base": 30, "largest": 20},
        {"base": 2, "largest": 256},
        {"base": 2, "hold_s": -1},
        {"base": 2, "report_timeout_s": 0},
    )
    found["refused"] = [told(AdaptationParameters, **more) for more in bad]
    return found


def _drawn_network(seed: int) -> Network:
    chance = random.Random(seed)
    names = [f"n{k}" for k in range(7)]
    pairs = {(a, b) for a in names for b in names if a != b and chance.random() < 0.45}
    links = tuple(
        Link(source=a, target=b, capacity_bps=chance.choice([1e6, 2e6, 3e6]))
        for a, b in sorted(pairs)
    )
    return Network(
        name=f"drawn {seed}", nodes=tuple(Node(id=n, kind="switch") for n in names), links=links
    )


def capillary() -> Any:
    cases: list[tuple[Network, str, str]] = [
        (_drawn_network(seed), "n0", "n6") for seed in range(8)
    ]
    cases += [
        (load_network("swiss-t1"), "s1", "s6"),
        (load_network("optical-cloud"), "x1", "x11"),
        (load_network("capillary-layers"), "s", "t"),
        (load_network("ring:5"), "s0", "s2"),
    ]
    found: dict[str, Any] = {}
    for network, a, b in cases:
        for layers in (None, 1, 2, 0, True):
            found[f"{network.name}, {layers}"] = told(
                lambda n=network, a=a, b=b, k=layers: _route(capillary_route(n, a, b, k))
            )
        found[f"{network.name}, hunted"] = told(lambda n=network, a=a, b=b: _hunted(n, a, b))
        found[f"{network.name}, by the thesis"] = told(
            lambda n=network, a=a, b=b: _route(thesis_route(n, a, b))
        )
        found[f"{network.name}, certified"] = [
            told(lambda x=x: x) for x in _certificates(network, a, b)
        ]
    ring = cases[-1][0]
    found["refused"] = [
        told(capillary_route, ring, *ends) for ends in (("s0", "s0"), ("s0", "x"), ("x", "s0"))
    ]
    return found


def _route(route: Any) -> Any:
    return [
        route.method,
        route.loads,
        [(layer.load, layer.factor, layer.bottlenecks) for layer in route.layers],
    ]


def _hunted(network: Network, a: str, b: str) -> Any:
    route = hunt_layers(network, a, b)
    layers = [
        (round(layer.load, 8), round(layer.factor, 8), sorted(layer.bottlenecks))
        for layer in route.layers
    ]
    return [layers, [round(load, 8) for load in route.loads], route.failure]


def _certificates(network: Network, a: str, b: str) -> Iterator[Any]:
    try:
        loads = list(capillary_route(network, a, b).loads)
    except NoPathError:
        return
    chance = random.Random(network.name)
    yield check_certificate(network, a, b, loads)
    for wrong in (Fraction(1, 7), Fraction(-1, 9), Fraction(2)):
        spoilt = list(loads)
        spoilt[chance.randrange(len(loads))] += wrong
        yield check_certificate(network, a, b, spoilt)
    first = capillary_route(network, a, b, 1).loads
    yield check_certificate(network, a, b, list(first))
    yield check_certificate(network, a, b, [Fraction(0)] * len(loads))
    yield check_certificate(network, b, a, loads)
    for question in ((a, b, loads[1:]), ("?", b, loads), (a, "?", loads)):
        yield told(check_certificate, network, *question)


def layout() -> Any:
    found: dict[str, Any] = {}
    for unit, subfiles in ((1, 1), (5, 3), (64, 4), (7, 2)):
        of = Layout(stripe_unit=unit, subfiles=subfiles)
        sizes = [of.subfile_sizes(n) for n in (0, 1, unit, 3 * unit * subfiles + 2)]
        ways = [(of.round_bytes, sizes, [of.logical_size(s) for s in sizes])]
        ways += [
            [of.share(end, k) for end in (0, 1, unit, unit * subfiles + 1)] for k in range(subfiles)
        ]  # type: ignore[list-item]
        found[f"{unit} {subfiles}"] = [
            ways,
            list(of.fragments(3, 4 * unit)),
            [of.logical_offset(0, k) for k in (0, unit, 2 * unit + 1)],
        ]
        for name, blocks in _blocks(unit).items():
            offsets, sizes_of = [a for a, _ in blocks], [n for _, n in blocks]
            memory = np.cumsum([0, *(n + 2 for n in sizes_of)])[:-1]
            requests = make_requests(offsets, memory, sizes_of)
            own = np.random.default_rng(3).integers(0, 256, int(memory[-1]) + 400, dtype=np.uint8)
            figures = [
                requests.first,
                requests.memory_bounds,
                requests.end,
                requests.total_bytes,
                requests.regular,
            ]
            prepared = [
                prepare(requests, Settings(sort=sort, merge=merge), writing=writing)
                for sort in (True, False)
                for merge in (True, False)
                for writing in (True, False)
            ]
            pieces = [
                _piece(p, own)
                for k in range(subfiles)
                for merge in (True, False)
                for p in pieces_of(requests, of, k, merge=merge)
            ]
            plain = [
                _piece(p, own)
                for k in range(subfiles)
                for p in striped_pieces(zip(offsets, memory.tolist(), sizes_of, strict=True), of, k)
            ]
            found[f"{unit} {subfiles} {name}"] = [
                figures,
                [told(lambda x=x: x, most=300) for x in (prepared, pieces, plain)],
            ]
    found["refused"] = [
        told(Layout, stripe_unit=u, subfiles=n) for u, n in ((0, 1), (1, 0), (-1, 2), (1, 10**6))
    ]
    found["no requests"] = [
        told(make_requests, *three)
        for three in (
            ([0], [0], [-1]),
            ([-1], [0], [1]),
            ([0, 1], [0], [1]),
            ([0.5], [0], [1]),
            ([], [], []),
            ([0], [-1], [1]),
            ([2**62], [0], [2**62]),
        )
    ]
    return found


def _blocks(unit: int) -> dict[str, list[tuple[int, int]]]:
    chance = random.Random(unit)
    return {
        "one": [(2, 3 * unit + 1)],
        "next to each other": [(k * unit, unit) for k in range(5)],
        "far apart": [(3 + k * 4 * unit, max(1, unit // 2)) for k in range(36)],
        "drawn": [(chance.randrange(200), chance.randrange(1, 30)) for _ in range(40)],
        "backwards": [(100 - 7 * k, 5) for k in range(8)],
        "overlapping": [(0, 20), (10, 20), (5, 3), (10, 20)],
        "empty": [(4, 0), (9, 2), (9, 0)],
    }


def _piece(piece: Any, own: Any) -> Any:
    stream = np.zeros(piece.size, dtype=np.uint8)
    piece.gather(own, stream)
    back = np.zeros_like(own)
    piece.scatter(back, stream)
    listed = piece.listed()
    rows = [(int(row["offset"]), int(row["size"])) for row in listed.rows()]
    fits = [piece.fitting(room) for room in (0, 30, 100, 10**6)]
    parts = (
        [piece.slice(0, max(1, piece.size // 2)), piece.slice(piece.size // 2, piece.size)]
        if piece.size > 1
        else []
    )
    return [
        type(piece).__name__,
        piece.size,
        piece.bounds,
        piece.run_count,
        piece.cost_bytes,
        piece.fragment_bytes,
        rows,
        fits,
        [(part.size, part.bounds, part.run_count) for part in parts],
        stream,
        int(back.sum()),
        piece.grain(3),
    ]


LIBRARIES: dict[str, Callable[[], Any]] = {
    "fec-redundancy": redundancy,
    "fec-adaptation": adaptation,
    "capillary": capillary,
    "striped-layout": layout,
}
"""Name -> what is computed."""
