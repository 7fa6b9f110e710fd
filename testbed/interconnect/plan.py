"""A simulation as a value: network, parameters, workload and faults by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.model.short_repr import ShortRepr
from topologies import Json, Network

if TYPE_CHECKING:
    from testbed.faults.failure_traces import FailureTrace


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What ``testbed simulate`` runs for every seed."""

    network: Network
    parameters: SimulationParameters
    pattern: str = "uniform"
    """Of the messages; the name of their file where there is one."""
    traffic: Json | None = None
    """A traffic file's document of messages, instead of a pattern."""
    rate_per_s: float
    """Messages a second of every sender."""
    injection: str = "poisson"
    burst: int = 1
    in_phase: bool = False
    faults: str | None = None
    """Failures in the grammar of testbed/faults/grammar.py."""
    trace: "FailureTrace | None" = None
    """Failures of a machine besides, its span scaled to ``duration_s``; ``trace_permanent``: none of them is
    repaired."""
    trace_permanent: bool = False
    timeline: int = 0
    """Rows carry so many of NAC's events."""
    duration_s: float
    """Messages are made for so long; those made after ``warm_up_s``, and before the last twentieth, are measured."""
    warm_up_s: float


def load_of(experiment: Experiment) -> float:
    """The fraction of a link that every sender offers."""
    return experiment.rate_per_s / experiment.parameters.packets_per_s(1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulationPlan(ShortRepr):
    """An experiment, and the seeds with which it is run, each once. ``sweep``: the same at one rate after another,
    the first of which is ``experiment``; empty: at its own only."""

    experiment: Experiment
    seeds: tuple[int, ...] = (1,)
    sweep: tuple[Experiment, ...] = ()

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds) < 0:
            raise InputError(f"seeds {self.seeds}: give one or more, 0 or more each")
