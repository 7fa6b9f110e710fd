"""How a stream is coded, as far as its redundancy depends on it: what every rating of a route is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.errors import InputError

Labels = Literal["random", "stratified"]


@dataclass(frozen=True, kw_only=True)
class Coding:
    """Static ``tolerance`` t, M ``source_packets`` a block, the ``decoding_error_rate`` DER (Gabrielyan 2007, eq. 23 to 25).

    ``large_blocks``: block sizes by eq. 29, whatever M and DER are. ``labels``: with "random" ones the block size is that of
    eq. 25, with "stratified" ones the least N that decodes for sure.

    Raises InputError for a tolerance outside [0, 1), M below 1, a DER outside (0, 1), stratified large blocks.
    """

    tolerance: float
    source_packets: int = 20
    decoding_error_rate: float = 1e-5
    large_blocks: bool = False
    labels: Labels = "random"

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance {self.tolerance!r}: give a fraction of the packets, 0 or more and below 1")
        if self.source_packets < 1:
            raise InputError(f"M = {self.source_packets}: a block has at least 1 source packet")
        if not 0 < self.decoding_error_rate < 1:
            raise InputError(
                f"decoding error rate {self.decoding_error_rate!r}: give one between 0 and 1, such as 1e-5"
            )
        if self.labels not in ("random", "stratified"):
            raise InputError(f"labels {self.labels!r}: choose random or stratified")
        if self.large_blocks and self.labels == "stratified":
            raise InputError("large blocks need M / (1 - p) packets whatever the labels; leave --label-order stratified out")
