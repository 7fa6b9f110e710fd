"""Which figures of what failures cost hang on the hop (Zarza 2011, 5.6.1, 5.6.4)?

The document says neither whether routers store packets, how long a router takes, nor how long a run is. Here packets
are forwarded as they begin to arrive or once they are whole, a router takes 0.1 to 1 us, and runs last from 0.05 to 8
s, with both payloads and both kinds of injection.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from experiments.interconnect.document_parameters.payloads import INJECTIONS, PAYLOADS
from experiments.interconnect.figures import PERFORMANCE, named
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import HOP_KEYS, at_least, delivery_check, equal, of_failures
from experiments.interconnect.study_points import SYNTHETIC, TEN_PERCENT, drb_points, seeds_of
from experiments.interconnect.transient import GAINS
from testbed.model.studies import Check, Figures, Points, Results, Rows, Study, Verdict, grid, spread
from testbed.report.drawing.charts import draw_lines

TREE, SMALL, LARGE = "fat-tree:4,3", "torus:8x8", "torus:16x16"
SWITCHING, DELAYS_S = ("cut-through", "store-and-forward"), (1e-7, 1.27e-7, 1e-6)
SEEDS_BY_LENGTH = {0.05: 5, 0.4: 5, 2.0: 5, 8.0: 3}
"""Simulated seconds -> seeds."""
ONE = (512, "poisson")
"""The payload and the injection of most runs."""
LASTING, PASSING = "start", "transient"
Key = tuple[str, str, str, str, float, float, int, str]
"""Network, pattern, kind of failure, and the hop: ``HOP_KEYS``."""
Found = Mapping[Key, Sequence[float]]


def points(quick: bool, seed: int) -> Points:
    """Every hop and length, with a tenth of the links failed for good, for a while, and with none: uniform traffic, up
    to 2 s with all payloads and injections, on the larger torus with one; other patterns up to 2 s."""
    seeds, found = list(seeds_of(seed, quick)), []
    hops = grid(switching=SWITCHING, router_delay_s=DELAYS_S[1:] if quick else DELAYS_S)
    for network, hop, (seconds, count) in product((SMALL, TREE) if quick else GAINS, hops, SEEDS_BY_LENGTH.items()):
        if seconds > (0.4 if quick else 2 if network == LARGE else 8):
            continue
        wide = not quick and network != LARGE and seconds <= 2
        for pattern in ("uniform", "transpose") if quick else SYNTHETIC if wide else SYNTHETIC[:1]:
            uniform = pattern == "uniform"
            for size, injection in product(PAYLOADS, INJECTIONS) if uniform and wide else [ONE]:
                kinds = (LASTING, PASSING) if uniform and (size, injection) == ONE else (LASTING,)
                chosen = seeds[: 2 if quick else 3 if network == LARGE or not uniform else count]
                timed = hop | {"injection": injection, "seconds": seconds, "bytes": size}
                found += _runs(network, pattern, chosen, kinds, timed)
    return found


def _runs(network: str, pattern: str, seeds: Sequence[int], kinds: Sequence[str], hop: Results) -> Points:
    failing: Points = [{}, *({"faults": TEN_PERCENT[network], "fault_kind": kind} for kind in kinds)]
    runs = [drb_points(network, pattern, seeds, quick=True, **one) for one in failing]
    return [point | hop for some in runs for point in some]


def judge(rows: Rows) -> Verdict:
    """Whether any hop gives what the document says of permanent and of transient failures."""
    found: Found = of_failures(rows, ("network", "pattern", "fault_kind", *HOP_KEYS))
    checks, notes = [delivery_check(rows)], []
    key = _lowest(found, TREE, LASTING, uniform=True)
    other = _lowest({k: v for k, v in found.items() if k[3:] == key[3:]}, TREE, LASTING, uniform=False)
    checks.append(
        equal(f"{TREE} uniform: performance at 10 % failed links, the lowest of all hops (%)", 80.0, found[key], 5.0,
              words(key)).cites("about 80 % (5.6.1, Figure 5.25)")
        .against(spread(found[other])[0], "as the lowest other pattern of this hop")
    )  # fmt: skip
    for network in dict.fromkeys(key[0] for key in found):
        checks += _of_transient(found, network)
        notes.append(_range(found, network))
        if network == LARGE:
            continue
        key, uniform = (_lowest(found, network, LASTING, uniform=is_so) for is_so in (False, True))
        checks.append(
            at_least(f"{network}: performance of the other patterns, the lowest of all hops (%)", 95.0, found[key],
                     f"{key[1]}, {words(key)}").cites("above 95 % (5.6.1)")
            .against(spread(found[uniform])[0], "as uniform traffic at its lowest")
        )  # fmt: skip
    return Verdict.of(checks, notes)


def _lowest(found: Found, network: str, kind: str, *, uniform: bool) -> Key:
    own = [k for k in found if k[0] == network and k[2] == kind and (k[1] == "uniform") == uniform]
    return min(own, key=lambda key: spread(found[key])[0])


def _of_transient(found: Found, network: str) -> list[Check]:
    """The most that transient failures gain over permanent ones in any hop; on the small torus, what they leave."""
    passing = [key for key in found if key[0] == network and key[2] == PASSING]
    lasting = {key: (*key[:2], LASTING, *key[3:]) for key in passing}
    gains = {
        key: [b - a for a, b in zip(found[lasting[key]], found[key], strict=True)] for key in passing
    }  # fmt: skip
    best, low = max(gains, key=lambda k: spread(gains[k])[0]), min(passing, key=lambda k: spread(found[k])[0])
    claimed = GAINS[network]
    name = f"{network}: most that transient failures gain over permanent ones in any hop (points)"
    checks = [
        equal(name, claimed, gains[best], claimed / 4, words(best))
        .cites(f"about {claimed:.0f} % (5.6.4)")
        .against(0.0, "no gain")
    ]
    if network == SMALL:
        checks.append(
            at_least(f"{network}: performance under transient failures, the lowest of all hops (%)", 99.5, found[low],
                     words(low)).cites("above 99.5 % (5.6.4)")
            .against(spread(found[lasting[low]])[0], "under permanent failures of this hop")
        )  # fmt: skip
    return checks


def _range(found: Found, network: str) -> str:
    """Where uniform traffic's performance lies with a tenth of the links failed for good, for each way of switching."""
    parts = []
    for switching in SWITCHING:
        own = {k: spread(v)[0] for k, v in found.items() if (k[:4] == (network, "uniform", LASTING, switching))}
        low, high = min(own, key=lambda k: own[k]), max(own, key=lambda k: own[k])
        parts.append(f"{switching} {own[low]:.2f} % ({words(low)}) to {own[high]:.2f} % ({words(high)})")
    return f"{network} uniform, {TEN_PERCENT[network]} failed links: " + "; ".join(parts)


def words(key: Key) -> str:
    """The hop of a key.

    >>> words(("torus:8x8", "uniform", "start", "store-and-forward", 1e-6, 0.05, 512, "poisson"))
    'store-and-forward, 1000 ns, 0.05 s, 512 B, poisson'
    """
    switching, delay_s, seconds, size, injection = key[3:]
    return f"{switching}, {1e9 * delay_s:.0f} ns, {seconds:g} s, {size} B, {injection}"


def figures(rows: Rows) -> Figures:
    """Performance under permanent failures over the length of the run, uniform traffic of 512 B at random, a line a
    hop."""
    found = of_failures(rows, ("network", "pattern", "fault_kind", *HOP_KEYS))
    drawn = {}
    for network in dict.fromkeys(key[0] for key in found):
        lines = {
            (f"{k[3]}, {1e9 * k[4]:.0f} ns", k[5]): values
            for k, values in found.items()
            if k[:3] == (network, "uniform", LASTING) and k[6:] == ONE
        }
        title = f"{network}, uniform: a tenth of the links failed, by hop"
        drawn[named(network)] = draw_lines(title, lines, x="simulated time (s)", y=PERFORMANCE)
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_hop_models",
    title="Cut-through or store and forward, 0.1 to 1 us a router, short or long runs: what hangs on the hop",
    deviations=(
        "Five seeds (8 s, other patterns, 16x16 torus: three); failures from the start of the run.",
        "Patterns but uniform: 512 bytes at random, up to 2 s; 16x16 torus up to 2 s.",
    ),
    answers="Zarza 2011, 5.6.1, 5.6.4: 80 %, above 95 %, gains of 14, 8 and 12 %; the hop is not given there",
    measure=measure_run,
)
