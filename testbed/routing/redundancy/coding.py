"""How a stream is coded, as far as its redundancy depends on it: what every rating of a route is given."""

from __future__ import annotations

from typing import Literal

from testbed.errors import InputError
from testbed.model.options import kinds
from testbed.model.options.option import Only, coded, options

Labels = Literal["random", "stratified"]
_SMALL = Only(when=lambda a: not a.large_blocks, needs="blocks that are not --large-blocks")


@options
class Coding:
    """Static ``tolerance`` t, M ``source_packets`` a block, the ``decoding_error_rate`` DER (Gabrielyan 2007, eq. 23 to
    25).

    ``large_blocks``: block sizes by eq. 29, whatever M and DER are. ``labels``: with "random" ones the block size is
    that of eq. 25, with "stratified" ones the least N that decodes for sure.

    Raises InputError for a value beyond its bounds, and for stratified large blocks.
    """

    tolerance: float = coded(
        default=0.05,
        flag="--static-tolerance",
        kind=kinds.share,
        metavar="T",
        help="static tolerance, 0 <= T < 1",
    )
    source_packets: int = coded(
        default=20,
        short=("--m",),
        kind=kinds.large_block_packets,
        metavar="M",
        help="source packets a block",
        only=(_SMALL,),
    )
    decoding_error_rate: float = coded(
        default="1e-5",
        short=("--der",),
        kind=kinds.probability,
        metavar="P",
        help="decoding error rate",
        only=(_SMALL,),
    )
    large_blocks: bool = coded(
        default=False,
        help="equation 29: blocks of thousands of packets",
        presets={True: {"labels": "random"}},
    )
    labels: Labels = coded(
        default="random",
        flag="--label-order",
        choices=("random", "stratified"),
        help="of the packets",
    )

    def __post_init__(self) -> None:
        if self.large_blocks and self.labels == "stratified":
            raise InputError(
                "large blocks need M / (1 - p) packets whatever the labels; leave --label-order stratified out"
            )


@options
class RatedCoding(Coding):
    """What ``testbed ror`` and ``testbed demands`` rate routes by: stratified labels, but for large blocks, which know
    of none."""

    labels: Labels = coded(
        default="stratified",
        flag="--label-order",
        choices=("stratified", "random"),
        help="block sizes for these packet labels (default {default}; testbed demands seeks an order of them for every "
        "pair and method, which takes 0.1 to 0.3 s unless another pair has the same; random: at once)",
    )
