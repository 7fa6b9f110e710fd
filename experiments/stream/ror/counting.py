"""How many packets a block must have, counted: from the packet logs of sender and receiver, and nothing else.

It imports nothing that computes a block size (a contract of pyproject.toml): what the sender's policy claims is held
against these counts. ``tail`` is equation 25 of Gabrielyan 2007 once more, by scipy.
"""

import numpy as np
from scipy.special import bdtr  # as scipy.stats has it, which takes most of a second to import

from testbed.stream.measurements import BoolArray, IntArray, StreamMeasurements

SETTLED_S = 0.05
"""After the failure, before packets count."""


def arrived_in_order(run: StreamMeasurements, size: int) -> BoolArray:
    """Shape (packets,): whether each packet of the blocks that were sent whole, with ``size`` packets, after the run's
    failure arrived; in the order of their blocks and symbols, which is that of their labels."""
    sent, order = run.sent, np.lexsort((run.sent.symbol, run.sent.block))
    packets = np.bincount(sent.block)
    packets[np.unique(sent.block[sent.time_s < run.faults[0].start_s + SETTLED_S])] = 0
    whole = packets[sent.block[order]] == size
    return np.isin(sent.key[order][whole], run.received.key)


def packets_needed(arrived: BoolArray, m: int) -> IntArray:
    """Shape (starts,): from each packet on, how many must be sent until ``m`` have arrived; as long as so many did."""
    came = np.flatnonzero(arrived)
    start = np.arange(len(arrived))
    last = np.searchsorted(came, start) + m - 1
    known = last < len(came)
    return np.asarray(came[last[known]] - start[known] + 1)


def fewest_packets(needed: IntArray, error_rate: float) -> int:
    """The least block size that falls short from no more than that share of the starts."""
    return int(np.quantile(needed, 1 - error_rate, method="inverted_cdf"))


def short_blocks(arrived: BoolArray, size: int, m: int) -> tuple[int, int]:
    """Of blocks of ``size`` packets laid over the packets from the first on: how many had fewer than ``m`` arrive, and
    how many there are."""
    blocks = len(arrived) // size
    came = arrived[: blocks * size].reshape(blocks, size).sum(axis=1)
    return int((came < m).sum()), blocks


def weighted_short_blocks(
    arrived: BoolArray, size: int, m: int, lost: float, load: float
) -> tuple[float, float]:
    """Which share of blocks would have fewer than ``m`` packets arrive if the share ``load`` of all packets were lost,
    estimated from packets of which the share ``lost`` was (likelihood ratios), and its standard error."""
    blocks = len(arrived) // size
    gone = size - arrived[: blocks * size].reshape(blocks, size).sum(axis=1)
    ratio = gone * np.log(load / lost) + (size - gone) * np.log((1 - load) / (1 - lost))
    weights = np.where(size - gone < m, np.exp(ratio), 0.0)
    return float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(blocks))


def tail(m: int, n: int, loss: float) -> float:
    """The probability that fewer than ``m`` of ``n`` packets arrive, each lost with probability ``loss`` (equation
    25)."""
    return float(bdtr(m - 1, n, 1 - loss)) if m <= n else 1.0
