"""What a stream's receiver is told beforehand."""

from dataclasses import dataclass, field

from fec.errors import FecError
from fec.protocol.framing import MAX_SYMBOL_ID


@dataclass(frozen=True, kw_only=True)
class ReceiverParameters:
    """FecError for values that cannot be used.

    ``playback_s``: a block is over so long after its first packet was sent. A report is due every ``report_interval_s``
    or ``report_packets`` packets, and ``urgent_s`` after the last one when a block cannot be repaired by what was sent
    of it. ``key``: of 16 bytes or more, the sender's; packets without its seal are refused, and reports bear it.
    """

    source_packets: int
    symbol_bytes: int
    playback_s: float = 0.4
    report_interval_s: float = 0.1
    report_packets: int = 100
    urgent_s: float = 0.02
    stream_id: int = 1
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.source_packets <= MAX_SYMBOL_ID or not 3 <= self.symbol_bytes <= 65535:
            raise FecError(f"M = {self.source_packets} (1..254), symbols of {self.symbol_bytes} bytes (3..65535)")
        if min(self.playback_s, self.report_interval_s, self.report_packets, self.urgent_s) <= 0:
            raise FecError("playback, report interval, report packets and urgent interval must all be above 0")
