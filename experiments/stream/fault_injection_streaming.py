"""Every kind of fault on the three networks: does a failing link take just the share of packets that theory gives it?

Sessions on Swiss-T1, an optical cloud and a mobile network; links go down, swallow packets, or drop half of them.
"""

from experiments.stream.networks import NETWORKS
from testbed.faults.fault import FaultKind
from testbed.stream.options import EachLink
from testbed.stream.run_in_turn import SessionStudy, Titled
from testbed.stream.workload import stream_plan

TITLES = ("Swiss-T1", "Optical cloud", "Mobile network")
RATES = (1000, 1000, 500)
KINDS: tuple[tuple[FaultKind, float, str], ...] = (
    ("down", 1.0, "links down"),
    ("blackhole", 1.0, "silent blackholes"),
    ("loss", 0.5, "half the packets lost"),
)


def sessions(quick: bool, seed: int) -> Titled:
    """Nine sessions: three networks, three kinds of fault (quick: two links each, at two points of loss)."""
    precision, most = (0.02, 2) if quick else (0.01, 8)
    failing = [
        (words, EachLink(kind=kind, loss_fraction=loss, precision=precision, most=most))
        for kind, loss, words in KINDS
    ]
    return [
        (
            f"{title}: {words}",
            stream_plan(*ends, rate_pps=rate, hold_s=1.0, faults=faults, seed=seed),
        )
        for title, ends, rate in zip(TITLES, NETWORKS, RATES, strict=True)
        for words, faults in failing
    ]


STUDY = SessionStudy(
    name="fault_injection_streaming",
    title="Every kind of fault on three networks: does a failing link take the share of packets that theory gives it?",
    deviations=(
        "Eight links of a route fail at full size (two in the quick one), one after the other, not all.",
        "The document simulates; here packets cross switches.",
        "1,000 packets a second; 500 over the mobile network: two processors forward no more over paths of 8 hops.",
    ),
    does="capillary streams over Swiss-T1, an optical cloud and a mobile network under every kind of link fault",
    answers="Gabrielyan 2007, section 4.3.1: "
    "a failure of link l costs the receiver r(l) of the packets, and FEC_r(l) repairs it",
    sessions=sessions,
)
