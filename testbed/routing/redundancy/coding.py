"""The parameters of a stream's code on which its redundancy depends."""

from __future__ import annotations

from typing import Literal

from testbed.errors import InputError
from testbed.model.options import kinds
from testbed.model.options.option import Only, coded, options

Labels = Literal["random", "stratified"]

# Options that have no effect on the block sizes of equation 29.
_SMALL = Only(when=lambda a: not a.large_blocks, needs="blocks that are not --large-blocks")


@options
class Coding:
    """The code of a stream (Gabrielyan 2007, equations 23 to 25).

    Attributes:
        tolerance: Static tolerance t: the share of lost packets that is tolerated without failures.
        source_packets: Number M of source packets per block.
        decoding_error_rate: Accepted probability (DER) that a block cannot be decoded.
        large_blocks: Use the block sizes of equation 29, which do not depend on M and DER.
        labels: Order of the packets' labels. With "random" labels the block size is that of
            equation 25, with "stratified" labels the smallest N that can always be decoded.

    Raises:
        InputError: A value is out of its bounds, or large blocks are combined with stratified
            labels.
    """

    tolerance: float = coded(
        default=0.05,
        flag="--static-tolerance",
        kind=kinds.share,
        metavar="T",
        help="loss that the code repairs without any fault (static tolerance), 0 <= T < 1",
    )
    source_packets: int = coded(
        default=20,
        short=("--m",),
        kind=kinds.large_block_packets,
        metavar="M",
        help="source packets per block",
        only=(_SMALL,),
    )
    decoding_error_rate: float = coded(
        default="1e-5",
        short=("--der",),
        kind=kinds.probability,
        metavar="P",
        help="largest accepted share of undecodable blocks",
        only=(_SMALL,),
    )
    large_blocks: bool = coded(
        default=False,
        help="assume blocks of thousands of packets (equation 29)",
        presets={True: {"labels": "random"}},
    )
    labels: Labels = coded(
        default="random",
        flag="--label-order",
        choices=("random", "stratified"),
        help="order in which packets use the labels",
    )

    def __post_init__(self) -> None:
        if self.large_blocks and self.labels == "stratified":
            raise InputError(
                "large blocks need M / (1 - p) packets, whatever the order of the labels; omit "
                "--label-order stratified"
            )


@options
class RatedCoding(Coding):
    """The code for which ``testbed ror`` and ``testbed demands`` rate routes.

    Its default is stratified labels, except with large blocks, for which only random labels are
    defined.
    """

    labels: Labels = coded(
        default="stratified",
        flag="--label-order",
        choices=("stratified", "random"),
        help="order in which packets use the labels, which affects the block sizes (default: "
        "{default}). In testbed demands, stratified takes 0.1 to 0.3 s per pair and "
        "method; random takes no time",
    )
