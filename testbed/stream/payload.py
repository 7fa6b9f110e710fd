"""The streamed content: a deterministic payload for each source packet, so that the far end can check every byte."""

import hashlib
from collections.abc import Callable


def payload_source(seed: int, symbol_bytes: int) -> Callable[[int], bytes]:
    """A function index -> payload of ``symbol_bytes - 2`` bytes (the symbol keeps two for the length).

    The index in front, then a window of a keystream that depends on seed and index: neighbours differ in every part.

    >>> payload_source(1, 64)(7) == payload_source(1, 64)(7) != payload_source(1, 64)(8)
    True
    """
    length = symbol_bytes - 2
    pool = hashlib.shake_128(b"stream" + seed.to_bytes(8, "big", signed=True)).digest(length + 4096)

    def payload(index: int) -> bytes:
        at = (index * 2654435761) % 4096
        return (index.to_bytes(8, "big") + pool[at : at + length])[:length]

    return payload
