"""What a fabric measures of a download."""

from dataclasses import dataclass, field

from topologies.text.json_types import Json


@dataclass(frozen=True, kw_only=True)
class DownloadMeasurements:
    """``seconds``: from the first packet until the last block was decoded (None: never); ``arrivals_s``: per packet,
    for the figure; ``sender_lag_s``: how late the sender was at worst."""

    fabric: str
    seconds: float | None
    sent: int
    received: int
    verified: bool
    arrivals_s: tuple[float, ...] = ()
    sender_lag_s: float = 0.0
    counters: Json = field(default_factory=dict)
