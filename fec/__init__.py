"""Packet-level forward error correction: Reed-Solomon blocks, exact block sizes, redundancy requirement, wire format.

Pure and without I/O: sockets, Scapy and shared libraries are in ``fec.adapters``.
"""

from __future__ import annotations

from fec.block_size import fec_block_size
from fec.engines import available_engines
from fec.errors import EngineUnavailable, FecError, MalformedPacket, NotDecodable
from fec.redundancy import ror, ror_breakdown
from fec.reed_solomon import ReedSolomonCode

__all__ = [
    "EngineUnavailable",
    "FecError",
    "MalformedPacket",
    "NotDecodable",
    "ReedSolomonCode",
    "available_engines",
    "fec_block_size",
    "ror",
    "ror_breakdown",
]
