"""Checks how many blocks cannot be decoded because of loss bursts on impaired links."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from testbed.model.verdict import Check, Claim
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.burst_loss import (
    binomial_losses,
    losses_in_block,
    mean_of,
)
from testbed.stream.impaired.tolerances import SIGMAS
from testbed.stream.impaired.traversals import LinkTraversal
from testbed.stream.measurements import BoolArray, FloatArray, IntArray
from topologies.impairments import GilbertElliott

# Says in a check what the rival value is.
INDEPENDENT = "as many losses, but independent ones"
# With fewer blocks there is no check.
_MIN_BLOCKS = 50


class _Crossing(NamedTuple):
    """The packets of one block that crossed one link.

    Attributes:
        chain: The Markov chain of the link's losses.
        positions: The index of each packet among all packets that reached the link.
    """

    chain: GilbertElliott
    positions: IntArray


def block_checks(facts: RunFacts, crossings: Sequence[LinkTraversal]) -> list[Check]:
    """Return the check of the share of blocks that cannot be decoded from their first N packets.

    Fewer than M of these packets arrived. The share is predicted by Elliott's recursion over the
    Markov chain of the losses. The check must distinguish it from its rival: the share if as many
    losses were independent. The list has one check, or none if too few blocks crossed the links to
    distinguish the two. Whether there is a check does not depend on the measurement.
    """
    bursty = [crossing for crossing in crossings if _chain_of(crossing) is not None]
    losing = sum(mean_of(crossing.span.impairments) > 0 for crossing in crossings)
    if not bursty or len(bursty) < losing:
        return []
    blocks = _Blocks(facts, bursty)
    count = len(blocks.predicted)
    if count < _MIN_BLOCKS:
        return []
    predicted = float(np.sum(blocks.predicted)) / count
    independent = float(np.sum(blocks.independent)) / count
    variance = float(np.sum(blocks.predicted * (1 - blocks.predicted))) * blocks.inflation
    tolerance = (SIGMAS * math.sqrt(variance) + 1) / count
    if abs(predicted - independent) <= tolerance:
        return []
    name = "share of blocks that their first N packets do not decode, bursts on impaired links"
    claim = Claim(name, "undecodable-in-bursts")
    check = claim.equal(predicted, float(blocks.undecodable.mean()), tolerance)
    detail = f"{count} blocks; before late parity, by the recursion of Elliott 1963"
    return [check.against(independent, INDEPENDENT).noting(detail)]


def _chain_of(crossing: LinkTraversal) -> GilbertElliott | None:
    """Return the chain of a link whose only impairment is loss in bursts, or None."""
    impairments = crossing.span.impairments
    if len(impairments) == 1 and isinstance(impairments[0], GilbertElliott):
        return impairments[0]
    return None


class _Blocks:
    """The blocks whose packets met no other fault or impairment, shape (blocks,).

    Attributes:
        predicted: The probability that more packets are lost than the block has parity packets.
        independent: The same, if losses were independent.
        undecodable: A mask of the blocks of which fewer than M of the first N packets arrived.
        inflation: The factor by which bursts that span several blocks increase the variance.
    """

    predicted: FloatArray
    independent: FloatArray
    undecodable: BoolArray
    inflation: float

    def __init__(self, facts: RunFacts, crossings: Sequence[LinkTraversal]) -> None:
        run = facts.run
        sent = run.sent
        m = facts.plan.stream.source_packets
        crossings_of_block: dict[int, list[_Crossing]] = {}
        excluded: set[int] = set()
        counts = []
        memory = 0.0
        for crossing in crossings:
            chain = _chain_of(crossing)
            assert chain is not None
            memory = max(memory, chain.memory)
            block = sent.block[crossing.packets]
            excluded |= set(block[~crossing.alone].tolist())
            # Of the first and the last block, only some packets may have met the impairment.
            excluded |= {*block[:1].tolist(), *block[-1:].tolist()}
            first = sent.symbol[crossing.packets] < sent.block_size[crossing.packets]
            for number in np.unique(block).tolist():
                positions = np.flatnonzero((block == number) & first)
                crossings_of_block.setdefault(number, []).append(_Crossing(chain, positions))
                counts.append(len(positions))
        chosen = [number for number in sorted(crossings_of_block) if number not in excluded]
        index = np.searchsorted(run.blocks.block, chosen)
        arrived = (run.deliveries.copies > 0) & (sent.symbol < sent.block_size)
        arrived_of_block = np.bincount(run.block_index, weights=arrived)
        parity = (run.initial_block_size[index] - m).tolist()
        predicted = []
        independent = []
        for number, spare in zip(chosen, parity, strict=True):
            predicted.append(_undecodable(crossings_of_block[number], spare, bursts=True))
            independent.append(_undecodable(crossings_of_block[number], spare, bursts=False))
        self.predicted = np.array(predicted)
        self.independent = np.array(independent)
        self.undecodable = np.asarray(arrived_of_block[index] < m)
        length = max(1.0, float(np.mean(counts))) if counts else 1.0
        self.inflation = 1 + 2 * memory / max(1e-9, 1 - memory**length)


def _undecodable(crossings: Sequence[_Crossing], spare: int, *, bursts: bool) -> float:
    """Return the probability that a block loses more than ``spare`` packets.

    Args:
        crossings: The packets of the block on each impaired link.
        spare: The number of parity packets.
        bursts: False if losses are independent.
    """
    total = np.ones(1)
    for chain, positions in crossings:
        if not len(positions):
            continue
        if bursts:
            losses = losses_in_block(chain, tuple(np.diff(positions).tolist()))
        else:
            losses = binomial_losses(chain.mean_loss, len(positions))
        total = np.convolve(total, losses)
    return float(total[spare + 1 :].sum())
