"""Options of a download, for the command and the library."""

from __future__ import annotations

from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import (
    coded,
    ends,
    failing,
    option,
    options,
    routed,
    running,
    sent,
)

# Largest file; both ends keep it in memory.
MAX_BYTES = 1 << 28


@options
class DownloadOptions:
    """Options of a download; see ``DownloadPlan``.

    Attributes:
        faults: None to take the most loaded link down for the middle half of the download.
    """

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network: a catalogue name (see testbed topology list) or a file",
    )
    source: str = ends(
        kw_only=False, flag="--from", metavar="NODE", help="node that sends the file"
    )
    sink: str = ends(kw_only=False, flag="--to", metavar="NODE", help="switch before the last mile")
    last_mile_rate_bps: float = ends(
        default="8Mbps", kind=kinds.rate_bps, help="rate of the last mile"
    )
    file_bytes: int = sent(
        default="4MB", kind=kinds.bytes_up_to(MAX_BYTES), help="size of the file"
    )
    constant_rate: bool = sent(
        default=False,
        help="send at a constant rate (for comparison); the verdict compares the duration with "
        "that of an adaptive sender",
    )
    routing: str = routed(
        default="capillary", metavar="METHOD", help="routing method, see testbed route"
    )
    code: str = coded(
        default="raptorq", help="erasure code: raptorq, reed-solomon, or one of a plug-in"
    )
    block_symbols: int | None = coded(
        default=None,
        kind=kinds.large_block_packets,
        metavar="K",
        help="source symbols per block (default: 500; Reed-Solomon: 128)",
    )
    symbol_bytes: int = option(
        default=1024, kind=kinds.symbol_bytes, listed=False, help="bytes of payload per packet"
    )
    faults: FaultsLike | None = failing(
        default=None,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="links that fail, as in s1-s2@1-3, or a JSON file as for testbed stream (default: "
        "the link with the highest load fails for the middle half)",
    )
    seed: int = running(
        default=1, kind=kinds.seed, help="seed of labels, faults and packet contents"
    )
