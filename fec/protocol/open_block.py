"""A block of a stream at its receiver, from its first packet to its deadline."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class OpenBlock:
    """``start_us``: when its first packet was sent, on the sender's clock; ``size``: N as its packets say; ``symbols``:
    what came of it, until it is complete; ``bitmap``: bit e for symbol e; ``spoilt``: bit i for a source packet that
    was decoded and could not be read."""

    number: int
    start_us: int
    size: int
    symbols: dict[int, bytes] = field(default_factory=dict)
    bitmap: int = 0
    complete: bool = False
    spoilt: int = 0
