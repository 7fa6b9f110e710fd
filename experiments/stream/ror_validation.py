"""Does the redundancy that a stream needs follow ROR, and does path diversity lower it, on measured packets?

Three networks, three routings, two label orders: predicted ROR against the redundancy that the sender really used.
"""

from __future__ import annotations

from experiments.stream.networks import NETWORKS
from testbed.commands.studies.session_experiment import Experiment, Sessions
from testbed.stream.plan import LabelOrder, StreamParameters
from testbed.stream.planning import EachLink
from testbed.stream.session import SessionRequest
from testbed.stream.suite import SuiteResult

METHODS = ("single", "disjoint-2", "capillary")
LABELS: tuple[LabelOrder, ...] = ("stratified", "random")


def sessions(quick: bool, seed: int) -> Sessions:
    """Eighteen sessions (quick: nine, stratified labels only and three links each)."""
    return [
        (
            f"{network.title}: {method}, {labels} labels",
            SessionRequest(
                network=network.name,
                source=network.source,
                sink=network.sink,
                method=method,
                stream=StreamParameters(labels=labels, hold_s=1.0),
                faults=EachLink(precision=0.02 if quick else 0.01, most=3 if quick else 12),
                seed=seed,
            ),
        )
        for network in NETWORKS
        for labels in (LABELS[:1] if quick else LABELS)
        for method in METHODS
    ]


def show_ror(result: SuiteResult) -> None:
    """A line a session: ROR of the whole route, and predicted and measured over the links that failed."""
    print(f"{'session':58} {'ROR of route':>13} {'predicted':>10} {'measured':>9}")
    for document, title in zip(result.documents(), (p.session.title for p in result.run.sessions), strict=True):
        ror = document["ror"]
        whole = "infinite" if ror["whole_route"] is None else f"{ror['whole_route']:.2f}"
        print(f"{title:58} {whole:>13} {ror['predicted']:10.2f} {ror['measured']:9.2f}")


STUDY = Experiment(
    name="ror_validation",
    does="predicted ROR against measured loss and redundancy: single path, two disjoint paths, capillary; both label orders",
    answers="Gabrielyan 2007, eq. 23, on packets: ROR predicted and used, routing beside routing (which needs less is not judged)",
    sessions=sessions,
    after=show_ror,
)
