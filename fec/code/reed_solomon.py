"""The systematic Reed-Solomon code of RFC 5510 over packets.

Several engines compute it, and all give the same bytes. A block can be decoded from any M of its
symbols. Parity can be added to a block at any time, up to 255 symbols in all.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from fec.code.checked import octets, plain, whole
from fec.engines import Symbols, best_engine, load_engine
from fec.engines.galois_field import ORDER
from fec.errors import FecError, NotDecodable

BytesLike: TypeAlias = bytes | bytearray | memoryview

# Maximum number of symbols of a block over GF(2^8).
MAX_BLOCK = ORDER

# Memory for the cache of prepared decoding and encoding matrices, and limits of their number.
_CACHE_BYTES = 16 << 20
_MIN_CACHED_MATRICES = 8
_MAX_CACHED_MATRICES = 1024

# Memory for one coefficient of a prepared matrix; ISA-L's tables are the largest.
_COEFFICIENT_BYTES = 32


class ReedSolomonCode:
    """The Reed-Solomon code with M source symbols per block.

    Attributes:
        source_packets: M, the number of source symbols per block.

    >>> code = ReedSolomonCode(source_packets=2)
    >>> symbols = code.encode([b"capillary", b"routing.."], count=4)
    >>> code.decode({1: symbols[1], 3: symbols[3]})
    [b'capillary', b'routing..']
    """

    def __init__(self, source_packets: int, engine: str | None = None) -> None:
        """Create the code, and select the engine that computes it.

        Args:
            source_packets: M, from 1 to 254.
            engine: "isal", "numpy", "reedsolo", or None for the fastest on this machine.

        Raises:
            FecError: M is outside its range, or there is no such engine.
            EngineUnavailable: The engine does not work on this machine.
        """
        if (
            not isinstance(source_packets, (int, Integral))
            or isinstance(source_packets, bool)
            or not 1 <= source_packets < MAX_BLOCK
        ):
            raise FecError(
                f"source_packets {str(source_packets)[:40]!r} is not in 1..{MAX_BLOCK - 1}: "
                "Reed-Solomon over GF(2^8) has no larger block; "
                "RaptorQ (RFC 6330) is the code for those"
            )
        m = int(source_packets)
        self.source_packets = m
        self._engine = load_engine(engine) if engine is not None else best_engine()
        self._source_ids = tuple(range(m))
        # A matrix has a column for each available symbol and a row for each symbol to compute.
        matrix_bytes = m * min(m, MAX_BLOCK - m) * _COEFFICIENT_BYTES
        matrices = max(_MIN_CACHED_MATRICES, _CACHE_BYTES // matrix_bytes)
        cache = lru_cache(maxsize=min(_MAX_CACHED_MATRICES, matrices))
        self._prepared = cache(self._engine.prepare)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source_packets, self.engine)

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self._engine.name

    @property
    def engine_addresses(self) -> tuple[int, int]:
        """Addresses of ISA-L's ``ec_init_tables`` and ``ec_encode_data``; zeros without ISA-L."""
        return getattr(self._engine, "addresses", (0, 0))

    def encode(self, packets: Sequence[BytesLike], count: int) -> list[bytes]:
        """Return the symbols of a block: the packets themselves, then parity symbols.

        This takes M (count - M) operations per byte of a packet.

        Args:
            packets: The M source packets, all of the same length.
            count: Number of symbols, from M to 255.

        Raises:
            FecError: The count or the packets are invalid.
        """
        if not isinstance(count, (int, Integral)) or not self.source_packets <= count <= MAX_BLOCK:
            raise FecError(self._outside("block size", count))
        source = self._stacked(packets)
        parity_ids = tuple(range(self.source_packets, count))
        return _as_bytes(packets) + self._symbols(self._source_ids, parity_ids, source)

    def parity(self, packets: Sequence[BytesLike], first: int, stop: int) -> list[bytes]:
        """Return the parity symbols first .. stop - 1, which equal those of ``encode``.

        Args:
            packets: The M source packets, all of the same length.
            first: Id of the first symbol, from M.
            stop: Id after the last symbol, at most 255.

        Raises:
            FecError: The ids or the packets are invalid.
        """
        are_integers = isinstance(first, (int, Integral)) and isinstance(stop, (int, Integral))
        if not are_integers or not self.source_packets <= first <= stop <= MAX_BLOCK:
            raise FecError(self._outside(f"parity symbols {first} up to", stop))
        parity_ids = tuple(range(first, stop))
        return self._symbols(self._source_ids, parity_ids, self._stacked(packets))

    def decode(self, symbols: Mapping[int, BytesLike]) -> list[bytes]:
        """Return the M source symbols.

        Source symbols that have arrived are returned unchanged. Each of the others takes M
        operations per byte.

        Args:
            symbols: The symbols that have arrived, by id. Only the M with the smallest ids are
                used.

        Raises:
            NotDecodable: There are fewer than M symbols.
            FecError: An id is outside 0..254, or lengths differ.
        """
        m = self.source_packets
        available = self._ids(symbols)[:m]
        if len(available) < m:
            raise NotDecodable(len(available), m)
        packets = [symbols[i] for i in available]
        if available[-1] < m:
            # All M source symbols have arrived.
            self._check_packets(packets)
            return _as_bytes(packets)
        missing = tuple([i for i in self._source_ids if i not in symbols])
        recovered = self._symbols(tuple(available), missing, self._stacked(packets))
        recovered_by_id = dict(zip(missing, recovered, strict=True))
        # A recovered symbol has at least one byte, so it is true.
        return _as_bytes([recovered_by_id.get(i) or symbols[i] for i in self._source_ids])

    def _symbols(
        self, available: tuple[int, ...], required: tuple[int, ...], source: Symbols
    ) -> list[bytes]:
        """Compute symbols of a block from M others.

        Args:
            available: Ids of the M available symbols.
            required: Ids of the symbols to compute.
            source: The available symbols, one per row.
        """
        if not required:
            return []
        length = source.shape[1]
        out = np.empty((len(required), length), dtype=np.uint8)
        self._prepared(available, required)(source, out)
        joined = out.tobytes()
        return [joined[start : start + length] for start in range(0, len(joined), length)]

    def _ids(self, symbols: Mapping[int, BytesLike]) -> list[int]:
        """Check the ids of symbols, and return them in ascending order.

        Raises:
            FecError: An id is invalid.
        """
        if not isinstance(symbols, (dict, Mapping)):
            raise FecError(f"symbols: got a {type(symbols).__name__}; give {{symbol id: bytes}}")
        if plain(symbols, int):
            ids = sorted(symbols)
            if ids and ids[0] >= 0 and ids[-1] < MAX_BLOCK:
                return ids
        requirement = "symbol ids: a block has symbols 0..254 only;"
        return sorted(whole(symbol_id, requirement, 0, MAX_BLOCK - 1) for symbol_id in symbols)

    def _check_packets(self, packets: Sequence[BytesLike]) -> int:
        """Check the source packets of a block, and return their length in bytes.

        Raises:
            FecError: They are not M bytes-like values of the same length.
        """
        m = self.source_packets
        if not isinstance(packets, (list, Sequence)):
            raise FecError(f"packets: got a {type(packets).__name__}; give a list of bytes")
        if len(packets) != m:
            raise FecError(
                f"{len(packets)} packets given to a code of {m} source packets; "
                f"give {m} (pad the last block)"
            )
        if not plain(packets, bytes) or not all(packets):
            for packet in packets:
                octets(packet, "packet of the block")
        lengths = set(map(len, packets))
        if len(lengths) > 1:
            raise FecError(
                f"packets of {sorted(lengths)} bytes in one block: "
                "pad them to one length of at least 1 byte"
            )
        return lengths.pop()

    def _stacked(self, packets: Sequence[BytesLike]) -> Symbols:
        """Return the packets as the rows of an array, after checking them."""
        length = self._check_packets(packets)
        # The array of a bytearray is writable. Compiled kernels are then built for one kind of
        # array only.
        return np.ndarray((self.source_packets, length), np.uint8, bytearray().join(packets))

    def _outside(self, what: str, value: object) -> str:
        return (
            f"{what} {str(value)[:40]}: with {self.source_packets} source packets "
            f"a Reed-Solomon block has {self.source_packets}..{MAX_BLOCK} symbols; "
            "RaptorQ (RFC 6330) is the code for larger ones"
        )


def _as_bytes(packets: Sequence[BytesLike]) -> list[bytes]:
    """Return the packets as bytes; packets that are bytes already are not copied."""
    return [packet if type(packet) is bytes else bytes(packet) for packet in packets]
