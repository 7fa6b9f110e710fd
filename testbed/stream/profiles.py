"""Named sets of stream parameters for what people stream; an option given next to a profile still wins.

Source: Gabrielyan 2007, section 4.3 (VOIP packets of 20 ms allow 20 to 25 a block; packetized TV can wait for large ones). Downloads are a command of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "voip": {"rate_pps": 50.0, "m": 20, "symbol_bytes": 162, "playback": 0.8},
    "video": {"rate_pps": 250.0, "m": 40, "symbol_bytes": 1002, "playback": 2.0},
}
"""voip: a packet of 160 bytes (G.711) every 20 ms, blocks of 0.4 s. video: 2 Mbit/s, blocks of 0.16 s, two seconds of buffer."""
