"""How late the machine was in a run of a stream, and how late the checks let it be; pure numpy.

Theory of operation. In the network of theory a switch passes a packet on at once. On a machine that is busy with other
things a switch waits for a processor, and packets lie in it; those of one path longer than those of another. Three
things follow.

- A packet that another one overtakes by more than the sender's allowance for reordering (5 ms at least) is *taken for
  lost*. Until a report tells that it came, the sender is **misinformed**: it answers a failure that is none, begins
  blocks under a wrong N and sends late parity. Equation 23 is about blocks that were begun upon true news. Those begun
  or helped while the sender was misinformed are left out of ROR, and what they would have added or taken away is said.
  The check bears as much of that as its tolerance is: where the two figures, with them and without them, are further
  apart, neither says anything.
- A block has the playback buffer's time. A quarter of it each is given to a sender that is late, to packets that lie in
  switches, and to a receiver that is late; the last quarter is the block's own (two blocks' time, 40 ms of the usual
  400).
- A fault's steady part begins after ``REACTION_S`` at the latest: a report interval, and what is left for the way of
  the news. A block that is begun upon older news than that may have too small an N through no fault of the sender.
"""

from testbed.model.machine.load import TimingError
from testbed.stream.facts.run_facts import RunFacts


def latenesses(
    facts: RunFacts, spurious_ror: float, ror_tolerance: float
) -> tuple[TimingError, ...]:
    """All of a run, in the order in which they are told. ``spurious_ror``: by how much blocks that a misinformed sender
    began change ROR, next to that check's tolerance (0 where none is judged)."""
    run, most_s = facts.run, facts.playback_quarter_s
    busy = (
        f" (processors {run.health.cpu_fraction:.0%} busy)"
        if run.health.cpu_fraction is not None
        else ""
    )
    received_s = float(run.counters.get("worst_receive_lag_s", 0.0))
    found = [
        TimingError(
            "sender",
            "the sender lagged {was} behind its schedule" + busy,
            run.health.sender_lag_s,
            most_s,
        ),
        TimingError(
            "receiver", "packets lay {was} at the receiver before it took them", received_s, most_s
        ),
    ]
    if not facts.only_switches_delay:
        return tuple(found)
    lay = "packets lay {was} in the switches, which hold none in theory" + busy
    found.append(TimingError("switches", lay, facts.queueing_s, most_s))
    if facts.theory.adaptive:
        old = "a loss report told the sender of packets sent {was} before"
        found.append(TimingError("news", old, facts.oldest_report_s, facts.max_report_age_s))
        if ror_tolerance > 0:
            words = "blocks that the sender began or helped because of packets that lay in switches change ROR by {was}"
            found.append(TimingError("misled", words, abs(spurious_ror), ror_tolerance, unit=""))
    return tuple(found)
