"""Injects every kind of fault on three networks, and compares losses with theory.

The theory predicts that a failing link loses the fraction of the packets that it carries (its
load). Streams run on Swiss-T1, an optical cloud and a mobile network. Links go down, drop all
packets without losing their carrier (blackholes), or drop half of the packets.
"""

from experiments.stream.networks import NETWORKS
from testbed.faults.fault import FaultKind
from testbed.stream.options import EachLink
from testbed.stream.plan import StreamPlan
from testbed.stream.run_in_turn import SessionStudy, Titled
from testbed.stream.workload import stream_plan

# Title and packet rate (packets per second) of each network of NETWORKS.
TITLES_AND_RATES = (
    ("Swiss-T1", 1000),
    ("Optical cloud", 1000),
    ("Mobile network", 500),
)

# Kind of fault, loss rate and description.
KINDS: tuple[tuple[FaultKind, float, str], ...] = (
    ("down", 1.0, "links down"),
    ("blackhole", 1.0, "silent blackholes"),
    ("loss", 0.5, "half the packets lost"),
)


def sessions(quick: bool, seed: int) -> Titled:
    """Return nine sessions with their titles: three kinds of fault on three networks.

    Eight links of each route fail, and losses are measured to within 0.01. ``quick``: two links, to
    within 0.02.
    """
    precision = 0.02 if quick else 0.01
    max_links = 2 if quick else 8
    result: list[tuple[str, StreamPlan]] = []
    for (title, rate_pps), ends in zip(TITLES_AND_RATES, NETWORKS, strict=True):
        for kind, loss_rate, description in KINDS:
            faults = EachLink(
                kind=kind, loss_fraction=loss_rate, precision=precision, most=max_links
            )
            plan = stream_plan(*ends, rate_pps=rate_pps, hold_s=1.0, faults=faults, seed=seed)
            result.append((f"{title}: {description}", plan))
    return result


STUDY = SessionStudy(
    name="fault_injection_streaming",
    title="Every kind of fault on three networks: "
    "does a failing link lose the fraction of packets that theory predicts?",
    deviations=(
        "Eight links of each route fail one after another (quick: two), not all.",
        "The document simulates; here packets cross switches.",
        "1,000 packets per second; 500 over the mobile network, "
        "because two processors forward no more over paths of 8 hops.",
    ),
    does="capillary streams over Swiss-T1, an optical cloud and a mobile network "
    "under every kind of link fault",
    answers="Gabrielyan 2007, section 4.3.1: "
    "a failure of link l costs the receiver r(l) of the packets, and FEC_r(l) repairs it",
    sessions=sessions,
)
