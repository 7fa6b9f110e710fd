"""Liquid scheduling: frames of transfers that keep every bottleneck link busy (000 chapter 3). Pure: values in, schedules out."""

from typing import Any

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule

__all__ = ["Schedule", "Traffic", "check_schedule", "liquid_schedule"]


def __getattr__(name: str) -> Any:
    """``liquid_schedule`` is imported when asked for: its compiled steps are not needed by who only holds a schedule."""
    if name == "liquid_schedule":
        from testbed.scheduling.fast.portfolio import liquid_schedule

        return liquid_schedule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
