"""Counts the packets that a block must have, from the packet logs of sender and receiver alone.

The module imports nothing that computes a block size (a contract in pyproject.toml), because the
block sizes of the sender's policy are compared with these counts. ``tail`` is equation 25 of
Gabrielyan 2007, computed by scipy.
"""

import numpy as np

# The same function as in scipy.stats, which takes most of a second to import.
from scipy.special import bdtr

from testbed.stream.measurements import BoolArray, IntArray, StreamMeasurements

# Packets count from this time after the failure on.
SETTLED_S = 0.05


def arrived_in_order(run: StreamMeasurements, size: int) -> BoolArray:
    """Return whether each packet arrived, in the order of blocks and symbols.

    This is also the order of labels. Only packets of blocks count that were sent completely, with
    ``size`` packets, after the run's failure.
    """
    sent = run.sent
    order = np.lexsort((sent.symbol, sent.block))
    packets_by_block = np.bincount(sent.block)
    early = sent.time_s < run.faults[0].start_s + SETTLED_S
    packets_by_block[np.unique(sent.block[early])] = 0
    complete = packets_by_block[sent.block[order]] == size
    return np.isin(sent.key[order][complete], run.received.key)


def packets_needed(arrived: BoolArray, m: int) -> IntArray:
    """Return how many packets must be sent until ``m`` have arrived, from each packet on.

    The result ends where fewer than ``m`` of the remaining packets arrived.
    """
    arrivals = np.flatnonzero(arrived)
    start = np.arange(len(arrived))
    last = np.searchsorted(arrivals, start) + m - 1
    enough = last < len(arrivals)
    return np.asarray(arrivals[last[enough]] - start[enough] + 1)


def fewest_packets(needed: IntArray, error_rate: float) -> int:
    """Return the smallest block size that is too small for at most a fraction of the blocks.

    Args:
        needed: The packets that are needed from each packet on.
        error_rate: The fraction.
    """
    return int(np.quantile(needed, 1 - error_rate, method="inverted_cdf"))


def short_blocks(arrived: BoolArray, size: int, m: int) -> tuple[int, int]:
    """Divide the packets into blocks, and count those of which fewer than ``m`` packets arrived.

    Args:
        arrived: Whether each packet arrived.
        size: Packets per block.
        m: Packets that are enough to decode a block.

    Returns:
        The number of short blocks, and of all blocks.
    """
    blocks = len(arrived) // size
    arrivals = arrived[: blocks * size].reshape(blocks, size).sum(axis=1)
    return int((arrivals < m).sum()), blocks


def weighted_short_blocks(
    arrived: BoolArray, size: int, m: int, lost: float, load: float
) -> tuple[float, float]:
    """Estimate the fraction of short blocks at another loss rate, by likelihood ratios.

    Args:
        arrived: Whether each packet arrived.
        size: Packets per block.
        m: Packets that are enough to decode a block.
        lost: Loss rate of ``arrived``.
        load: Loss rate for which the fraction is estimated.

    Returns:
        The fraction of blocks with fewer than ``m`` packets, and its standard error.
    """
    blocks = len(arrived) // size
    losses = size - arrived[: blocks * size].reshape(blocks, size).sum(axis=1)
    log_ratio = losses * np.log(load / lost) + (size - losses) * np.log((1 - load) / (1 - lost))
    weights = np.where(size - losses < m, np.exp(log_ratio), 0.0)
    return float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(blocks))


def tail(m: int, n: int, loss: float) -> float:
    """Return the probability that fewer than ``m`` of ``n`` packets arrive (equation 25).

    Args:
        m: Packets that are enough.
        n: Packets that are sent.
        loss: Probability that a packet is lost.
    """
    return float(bdtr(m - 1, n, 1 - loss)) if m <= n else 1.0
