"""A simulation as a value: network, parameters, workload and faults."""

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
    """A simulation that ``testbed simulate`` runs for every seed.

    Attributes:
        network: The network.
        parameters: Parameters of routers and links.
        pattern: Name of the messages' destination pattern, or of their file.
        traffic: Document of a traffic file, which replaces the pattern.
        rate_per_s: Messages per second of every sender.
        injection: Name of the injection process.
        burst: Messages per burst.
        in_phase: Whether all senders start at the same moment (periodic and burst).
        faults: Failures in the grammar of testbed/faults/grammar.py.
        trace: Additional failures from the failure trace of a real machine, whose length is scaled
            to ``duration_s``.
        trace_permanent: Whether no failure of the trace is repaired.
        timeline: Largest number of NAC's events that each row contains.
        duration_s: Time during which messages are generated.
        warm_up_s: Messages generated after this time, and before the last twentieth of the
            duration, are measured.
    """

    network: Network
    parameters: SimulationParameters
    pattern: str = "uniform"
    traffic: Json | None = None
    rate_per_s: float
    injection: str = "poisson"
    burst: int = 1
    in_phase: bool = False
    faults: str | None = None
    trace: "FailureTrace | None" = None
    trace_permanent: bool = False
    timeline: int = 0
    duration_s: float
    warm_up_s: float


def load_of(experiment: Experiment) -> float:
    """Return the load that every sender offers, as a fraction of a link's capacity."""
    return experiment.rate_per_s / experiment.parameters.packets_per_s(1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulationPlan(ShortRepr):
    """An experiment, and the seeds with which it is run.

    Attributes:
        experiment: The experiment at its only rate, or at the first rate of ``sweep``.
        seeds: One run per seed.
        sweep: The same experiment at several rates; empty for a single rate.

    Raises:
        InputError: There is no seed, or a negative one.
    """

    experiment: Experiment
    seeds: tuple[int, ...] = (1,)
    sweep: tuple[Experiment, ...] = ()

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds) < 0:
            raise InputError(f"seeds {self.seeds}: give one or more, 0 or more each")
