"""Packet-level forward error correction.

The package contains a Reed-Solomon code, exact block sizes, the redundancy overall requirement
(ROR), and the protocol of a coded stream. It does no I/O: sockets, Scapy and shared libraries are
in ``fec.adapters``.
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
