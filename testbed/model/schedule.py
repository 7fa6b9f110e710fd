"""Schedules: time frames of transfers that share no link, and what is proved about their number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from testbed.model.traffic import Traffic
from topologies.text.shown import Shown

#: Returns seconds.
Clock = Callable[[], float]
#: What is proved about the length of a schedule.
Proof = Literal["liquid", "no-liquid-schedule", "unknown"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Schedule(Shown):
    """A division of transfers into time frames.

    Transfers of the same frame share no link. The load of the bottleneck is a lower bound of the
    number of frames. A schedule of this length is called liquid.

    Attributes:
        frame_of: The frame of each transfer, from 0 to length - 1. Shape (transfers,). No frame is
            empty.
        length: Number of frames.
        bottleneck_load: Load of the most loaded link of the traffic.
        method: Name of the method that found the schedule.
        proved: "liquid" if the schedule is liquid, "no-liquid-schedule" if an exhaustive search or
            an infeasible model has shown that the traffic has no liquid schedule, else "unknown".
        optimal: Whether no shorter schedule exists, or None if this is not known.
        seconds: How long the search took, or None.
        detail: Remarks of the method for people.
        traffic: The traffic, if the schedule was made by ``testbed.schedule``, else None.
    """

    frame_of: npt.NDArray[np.int32]
    length: int
    bottleneck_load: int
    method: str
    proved: Proof = "unknown"
    optimal: bool | None = None
    seconds: float | None = field(default=None, compare=False)
    detail: str = ""
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
        """Return the schedule with this frame for each transfer.

        Empty frames are removed. ``proved`` and ``optimal`` are derived from the length if they
        follow from it.

        Args:
            frame_of: The frame of each transfer, from 0. Shape (transfers,).
            bottleneck_load: Load of the most loaded link of the traffic.
            method: Name of the method that found the schedule.
            no_liquid: Whether the method has shown that there is no liquid schedule.
            optimal: Whether no shorter schedule exists, or None if the method does not know.
            detail: Remarks for people.
        """
        frame_sizes = np.bincount(frame_of)
        length = int(np.count_nonzero(frame_sizes))
        if length < len(frame_sizes):
            renumbered = np.cumsum(frame_sizes > 0) - 1
            frame_of = renumbered[frame_of]
        proved: Proof = "unknown"
        if length == bottleneck_load:
            proved = "liquid"
            optimal = True
        elif no_liquid:
            proved = "no-liquid-schedule"
            if length == bottleneck_load + 1:
                optimal = True
        return cls(
            frame_of=frame_of.astype(np.int32, copy=False),
            length=length,
            bottleneck_load=bottleneck_load,
            method=method,
            proved=proved,
            optimal=optimal,
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
        """Return the schedule with these frames.

        Args:
            frames: The numbers of the transfers in each frame. Every transfer is in one frame.
                This is not checked here, but by the checker of schedules.
            bottleneck_load: Load of the most loaded link of the traffic.
            method: Name of the method that found the schedule.
            no_liquid: Whether the method has shown that there is no liquid schedule.
            optimal: Whether no shorter schedule exists, or None if the method does not know.
            detail: Remarks for people.
        """
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
        """True if the number of frames is the load of the bottleneck."""
        return self.length == self.bottleneck_load

    @property
    def frames(self) -> list[list[int]]:
        """The numbers of the transfers in each frame, ascending."""
        order = np.argsort(self.frame_of, kind="stable")
        bounds = np.searchsorted(self.frame_of[order], np.arange(1, self.length))
        return [frame.tolist() for frame in np.split(order, bounds)]
