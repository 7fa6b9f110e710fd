"""The options of a code and its tolerance, which the commands of routing share, as the value that they stand for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from testbed.commands.meaning import given_options

if TYPE_CHECKING:
    from testbed.routing.redundancy.coding import Coding


LABELS = ("stratified", "random")


def coding_of(args: argparse.Namespace) -> Coding:
    """--static-tolerance, --source-packets, --decoding-error-rate, --large-blocks and --label-order (of which large blocks know nothing). Raises InputError where they make no code."""
    from testbed.routing.redundancy.coding import Coding

    return Coding(
        tolerance=args.tolerance,
        source_packets=args.m,
        decoding_error_rate=args.der,
        large_blocks=args.large_blocks,
        labels="random" if args.large_blocks and "labels" not in given_options(args) else args.labels,
    )
