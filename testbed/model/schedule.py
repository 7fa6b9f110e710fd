"""A schedule: time frames of transfers of which no two share a link, with what is proved of its length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from testbed.model.traffic import Traffic
from topologies.text.shown import Shown

Clock = Callable[[], float]
"""Seconds."""
Proof = Literal["liquid", "no-liquid-schedule", "unknown"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Schedule(Shown):
    """``frame_of``: shape (transfers,), the frame of each transfer, 0 .. length - 1, no frame empty.

    ``bottleneck_load``: the traffic's (its lower bound). ``proved``: "liquid" where the length is that bound,
    "no-liquid-schedule" where an exhausted search or an infeasible model says that none has it, else "unknown".
    ``optimal``: whether no shorter schedule exists (None: not known). ``method`` says which method found it.
    """

    frame_of: npt.NDArray[np.int32]
    length: int
    bottleneck_load: int
    method: str
    proved: Proof = "unknown"
    optimal: bool | None = None
    seconds: float | None = field(default=None, compare=False)
    detail: str = ""
    #: The traffic that is scheduled, if the schedule was made by ``testbed.schedule``.
    traffic: Traffic | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        frame_of: npt.NDArray[np.int32],
        bottleneck_load: int,
        *,
        method: str,
        no_liquid: bool = False,
        optimal: bool | None = None,
        detail: str = "",
    ) -> "Schedule":
        """Frames that no transfer uses are closed up; what follows from the length alone is filled in."""
        used = np.bincount(frame_of)
        length = int(np.count_nonzero(used))
        closed = frame_of if length == len(used) else (np.cumsum(used > 0) - 1)[frame_of]
        liquid = length == bottleneck_load
        proved: Proof = "liquid" if liquid else "no-liquid-schedule" if no_liquid else "unknown"
        best = True if liquid or (no_liquid and length == bottleneck_load + 1) else optimal
        return cls(
            frame_of=closed.astype(np.int32, copy=False),
            length=length,
            bottleneck_load=bottleneck_load,
            method=method,
            proved=proved,
            optimal=best,
            detail=detail,
        )

    @classmethod
    def of_frames(
        cls,
        frames: Sequence[Sequence[int]],
        bottleneck_load: int,
        *,
        method: str,
        no_liquid: bool = False,
        optimal: bool | None = None,
        detail: str = "",
    ) -> "Schedule":
        """From lists of transfer numbers, one a frame; every transfer is in exactly one (the checker says if not)."""
        frame_of = np.full(sum(map(len, frames)), -1, dtype=np.int32)
        for number, frame in enumerate(frames):
            frame_of[list(frame)] = number
        return cls.of(
            frame_of,
            bottleneck_load,
            method=method,
            no_liquid=no_liquid,
            optimal=optimal,
            detail=detail,
        )

    def __repr__(self) -> str:
        proof = "liquid" if self.liquid else self.proved
        return (
            f"Schedule({len(self.frame_of)} transfers in {self.length} frames, "
            f"bound {self.bottleneck_load}, {proof}, method {self.method!r})"
        )

    @property
    def liquid(self) -> bool:
        return self.length == self.bottleneck_load

    @property
    def frames(self) -> list[list[int]]:
        """The transfers of each frame, ascending."""
        order = np.argsort(self.frame_of, kind="stable")
        bounds = np.searchsorted(self.frame_of[order], np.arange(1, self.length))
        return [part.tolist() for part in np.split(order, bounds)]
