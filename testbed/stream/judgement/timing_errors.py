"""The lateness of the machine in a run of a stream, and the limits that the checks allow.

Theory of operation. In theory a switch forwards a packet at once. On a busy machine a switch waits
for a processor and packets wait in it, longer on some paths than on others. This has three
consequences.

- A sender treats a packet as lost if another one overtakes it by more than the allowance for
  reordering (at least 5 ms). Until a report says that it arrived, the sender is **misinformed**: it
  answers a failure that does not exist, begins blocks with a wrong N and sends late parity.
  Equation 23 is about blocks of a correctly informed sender. ROR leaves out the blocks that a
  misinformed sender began or sent late parity for, and the run contains by how much they would
  change ROR. If this exceeds the tolerance of the check, the run is invalid.
- The packets of a block must arrive within the time of the playback buffer (400 ms by default).
  Three quarters of this time are allowed for a late sender, for packets that wait in switches, and
  for a late receiver, one quarter each. The last quarter is for sending the block, which takes up
  to twice the time of a block (40 ms by default).
- The steady part of a fault begins after ``REACTION_S`` at the latest: a report interval, and the
  rest for the transit of the report. A block that began after an older report may have too small an
  N, which is not an error of the sender.
"""

from testbed.model.machine.load import TimingError
from testbed.stream.facts.run_facts import RunFacts


def latenesses(
    facts: RunFacts,
    spurious_ror: float,
    ror_tolerance: float,
) -> tuple[TimingError, ...]:
    """Return all timing errors of a run, in the order in which they are reported.

    Args:
        facts: The facts of the run.
        spurious_ror: By how much the blocks of a misinformed sender change ROR.
        ror_tolerance: The tolerance of that check; 0 if there is none.
    """
    run = facts.run
    limit_s = facts.playback_quarter_s
    busy = ""
    if run.health.cpu_fraction is not None:
        busy = f" (processors {run.health.cpu_fraction:.0%} busy)"
    sender = "the sender lagged {was} behind its schedule" + busy
    receiver = "packets lay {was} at the receiver before it took them"
    received_s = float(run.counters.get("worst_receive_lag_s", 0.0))
    errors = [
        TimingError("sender", sender, run.health.sender_lag_s, limit_s),
        TimingError("receiver", receiver, received_s, limit_s),
    ]
    if not facts.only_switches_delay:
        return tuple(errors)
    switches = "packets lay {was} in the switches, which hold none in theory" + busy
    errors.append(TimingError("switches", switches, facts.queueing_s, limit_s))
    if facts.theory.adaptive:
        news = "a loss report told the sender of packets sent {was} before"
        errors.append(TimingError("news", news, facts.oldest_report_s, facts.max_report_age_s))
        if ror_tolerance > 0:
            delayed = (
                "blocks that the sender began or helped because of packets that lay in switches"
            )
            description = delayed + " change ROR by {was}"
            misled = abs(spurious_ror)
            errors.append(TimingError("misled", description, misled, ror_tolerance, unit=""))
    return tuple(errors)
