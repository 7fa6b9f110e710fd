"""A fault: one link of a network fails in one of three ways for a while. The value that plans, fabrics and verdicts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.errors import InputError
from topologies.network import LinkId

FaultKind = Literal["down", "blackhole", "loss"]
Direction = Literal["both", "forward"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure of one link from ``start_s`` to ``stop_s`` after the stream's start.

    down: the carrier goes; blackhole: packets vanish, the carrier stays; loss: each packet is lost with probability
    ``loss_fraction``. ``direction`` both: the whole cable; forward: only the named direction.
    """

    link: LinkId
    kind: FaultKind = "down"
    start_s: float
    stop_s: float
    direction: Direction = "both"
    loss_fraction: float = 1.0

    def __post_init__(self) -> None:
        where = f"fault on {self.link[0]}->{self.link[1]}"
        if self.kind not in ("down", "blackhole", "loss"):
            raise InputError(f"{where}: kind {self.kind!r} is none of down, blackhole, loss")
        if self.direction not in ("both", "forward"):
            raise InputError(f"{where}: direction {self.direction!r} is neither both nor forward")
        if not 0 <= self.start_s < self.stop_s:
            raise InputError(
                f"{where}: start {self.start_s} s and stop {self.stop_s} s; start must be 0 or more and before stop"
            )
        if not 0 < self.loss_fraction <= 1:
            raise InputError(f"{where}: loss_fraction {self.loss_fraction} lies outside (0, 1]")
