"""Packet-level forward error correction: Reed-Solomon blocks, exact block sizes, redundancy requirement, wire format.

Pure and without I/O: sockets, Scapy and shared libraries are in ``fec.adapters``.
"""

from fec.code.reed_solomon import ReedSolomonCode
from fec.engines import available_engines
from fec.errors import EngineUnavailable, FecError, MalformedPacket, NotDecodable
from fec.redundancy.block_size import fec_block_size
from fec.redundancy.ror import ror, ror_breakdown

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
