"""Fast-failover groups as values: a switch sends a packet through the first bucket whose port is alive, without asking
its controller.

``flow_table`` evaluates them, the controller sends them. No I/O.
"""

from dataclasses import dataclass

from testbed.errors import InputError

BACK = 0xFFFFFFF8
"""OpenFlow's IN_PORT: out through the port that the packet came by, which no other port number allows."""


@dataclass(frozen=True, kw_only=True, order=True)
class Bucket:
    """Out through ``out_port`` (or BACK) with these fields set, taken while the link of ``watch_port`` is up."""

    watch_port: int
    out_port: int
    set_fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True, order=True)
class FailoverGroup:
    """One group of one switch, ``number`` 1 and up; buckets in the order in which they are tried. InputError without a
    bucket."""

    dpid: int
    number: int
    buckets: tuple[Bucket, ...]

    def __post_init__(self) -> None:
        if self.number < 1 or not self.buckets:
            raise InputError(
                f"switch {self.dpid}: group {self.number} of {len(self.buckets)} buckets; give a number and one"
            )
