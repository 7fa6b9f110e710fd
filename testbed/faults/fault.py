"""What a fault is: one link of a network fails, or is impaired, for a while or permanently.

Every workload plans, carries out and judges this one value. What fails in a richer way expands to several of it: a node
that is down, a flapping link, failures in Poisson streams (``schedules.py``), shapes of neighbouring cables and the
failures of a machine's trace (``shapes.py``, ``cable_faults.py``). ``grammar.py`` says how faults are written. Faults
may overlap, on one link too: a link is broken as long as any of its faults is in force.
"""

import math
from dataclasses import dataclass
from typing import Literal

from testbed.errors import InputError
from topologies.errors import TopologyError
from topologies.impairments import (
    Impairments,
    impairment_text,
    known_impairments,
    mean_loss,
    parse_impairments,
    to_text,
)
from topologies.network import LinkId, label_of

FaultKind = Literal["down", "blackhole", "loss", "impaired"]
Direction = Literal["both", "forward"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure of one link, in force from ``start_s`` until ``stop_s``, seconds after the run's start.

    ``stop_s`` is infinite for a permanent fault. ``kind`` down: the carrier goes; blackhole: packets vanish, the
    carrier stays; loss: each packet is lost with probability ``loss_fraction``; impaired: what ``impairments`` says
    happens to packets (``topologies.impairments``), and ``loss_fraction`` is their mean loss. ``direction`` both: the
    whole cable fails, whichever of its two links is named; forward: only the named one. Raises InputError for anything
    else.
    """

    link: LinkId
    kind: FaultKind = "down"
    start_s: float = 0.0
    stop_s: float = math.inf
    direction: Direction = "both"
    loss_fraction: float = 1.0
    impairments: str = ""

    def __post_init__(self) -> None:
        where = f"fault on {label_of(self.link)}"
        if (self.kind == "impaired") != bool(self.impairments):
            raise InputError(
                f"{where}: kind {self.kind} {'without' if self.kind == 'impaired' else 'with'} impairments"
            )
        if self.kind == "impaired":
            try:
                known = parse_impairments(self.impairments, None)  # those of stored runs too: no file is read
            except TopologyError as error:
                raise InputError(f"{where}: {error}") from None
            object.__setattr__(self, "impairments", impairment_text(known))
            object.__setattr__(self, "loss_fraction", mean_loss(known))
        else:
            check_manner(where, self.kind, self.direction, self.loss_fraction)
        if self.direction not in ("both", "forward"):
            raise InputError(f"{where}: direction {self.direction!r} is neither both nor forward")
        if not 0 <= self.start_s < self.stop_s:
            raise InputError(
                f"{where}: start {self.start_s} s and stop {self.stop_s} s; start must be 0 or more and before stop"
            )

    @property
    def impaired_by(self) -> Impairments:
        """The impairments as values; none unless the kind is impaired."""
        return known_impairments(self.impairments)

    @property
    def description(self) -> str:
        """How it fails, as a person would write it."""
        return to_text(self.impaired_by) if self.kind == "impaired" else self.kind

    @property
    def partial(self) -> bool:
        """Whether some packets pass: it loses at random, in bursts, or only holds packets up."""
        return self.kind in ("loss", "impaired") and self.loss_fraction < 1

    @property
    def permanent(self) -> bool:
        """Whether it is never repaired."""
        return self.stop_s == math.inf

    @property
    def ends_s(self) -> float | None:
        """``stop_s`` for JSON: None where it is never repaired."""
        return None if self.permanent else self.stop_s

    @property
    def ends(self) -> tuple[str, str]:
        """The two nodes that the failing link joins, as the fault names them."""
        return self.link[0], self.link[1]


def check_manner(where: str, kind: str, direction: str, loss_fraction: float) -> None:
    """Raise InputError, which begins with ``where``, unless a link can fail in this manner."""
    if kind not in ("down", "blackhole", "loss"):
        raise InputError(f"{where}: kind {kind!r} is none of down, blackhole, loss")
    if direction not in ("both", "forward"):
        raise InputError(f"{where}: direction {direction!r} is neither both nor forward")
    if not 0 < loss_fraction <= 1:
        raise InputError(f"{where}: loss_fraction {loss_fraction} is outside (0, 1]")


def describe(fault: Fault) -> str:
    """A fault in force, for whoever watches.

    >>> describe(Fault(link=("s1", "s2", 0), kind="loss", loss_fraction=0.2))
    's1->s2 loss 20 %'
    """
    return f"{label_of(fault.link)} {fault.description}" + (
        f" {100 * fault.loss_fraction:g} %" if fault.kind == "loss" else ""
    )
