"""What theory says of a download: when the file is there, how many packets that takes, and what its rivals would take.

Source: Gabrielyan 2007, section 4.3.3 (a sender with an adaptive transmission rate feeds the last mile at its maximal
bandwidth).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from fec.protocol.large_blocks import MAX_LOSS, MEASURED_OVER, PREAMBLE_BYTES
from testbed.download.plan import FILL, RETURN_LABELS, DownloadPlan
from testbed.model.label_split import LABELS
from testbed.stream.prediction.active_faults import faulty_links


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """``seconds`` until the last needed symbol arrives; ``sent``: symbols sent; ``outage_s``: when no way was left."""

    seconds: float
    sent: float
    outage_s: float


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """What other downloads of the same file under the same failures take.

    ``constant_rate_s``: a sender that never raises its rate; ``single_path_s``: one path, over the links that fail;
    ``undisturbed_s``: no failure at all; ``always_highest_sent``: packets of a sender that always sends at its highest
    rate.
    """

    constant_rate_s: float
    single_path_s: float
    undisturbed_s: float
    always_highest_sent: float

    def nearest(self, expected_s: float) -> tuple[float | None, str]:
        """The nearest rival of the duration and what it is; None where no failure takes any packet."""
        if self.constant_rate_s - expected_s > 1e-9:
            return self.constant_rate_s, "a sender that never raises its rate"
        if expected_s - self.undisturbed_s > 1e-9:
            return self.undisturbed_s, "a download that no failure disturbs"
        return None, "no rival: no failure takes a packet, so that nothing calls for a higher rate"


def symbols_needed(plan: DownloadPlan) -> int:
    """Symbols that must arrive: the file's and its preamble's; a block of RaptorQ may ask for two more, which is not
    counted."""
    return -(-(plan.file_bytes + PREAMBLE_BYTES) // plan.parameters.symbol_bytes)


def delays(plan: DownloadPlan) -> tuple[float, float, float]:
    """Propagation in seconds by the links' own delays: there, the mean over labels; of the longest path beyond the
    shortest; there and back by the earlier copy of an acknowledgement."""

    def along(links: Iterable[int]) -> float:
        return sum(plan.network.links[index].delay_s for index in links)

    there = [(along(path.links), path.stop - path.start) for path in plan.forward.paths]
    forward_s = sum(delay_s * labels for delay_s, labels in there) / LABELS
    back_s = min(along(plan.backward.path_of(label).links) for label in RETURN_LABELS)
    return forward_s, max(there)[0] - min(there)[0], forward_s + back_s


def loss_at(plan: DownloadPlan, at_s: float) -> float:
    """Share of the labels that no way carries at this time: the union over all faults in force."""
    dead: dict[int, float] = {}
    for fault in plan.faults:
        if fault.start_s <= at_s < fault.stop_s:
            dead |= dict.fromkeys(faulty_links(plan.network, fault), fault.loss_fraction)
    retained = 0.0
    for path in plan.forward.paths:
        share = 1.0
        for index in path.links:
            share *= 1 - dead.get(index, 0.0)
        retained += share * (path.stop - path.start)
    return 1 - retained / LABELS


def predict(plan: DownloadPlan) -> Prediction:
    """When as many symbols have arrived as the blocks need, at the arrival rate requested wherever a way is left."""
    return _walk(plan, lambda at_s: loss_at(plan, at_s), lambda lost: _raised(plan, lost))


def alternatives(plan: DownloadPlan) -> Alternatives:
    """What the run is distinguished from; the same as the prediction where nothing is lost, or nothing is left."""

    def single_path_loss(at_s: float) -> float:
        return max(
            (f.loss_fraction for f in plan.faults if f.start_s <= at_s < f.stop_s), default=0.0
        )

    p = plan.parameters
    calm = replace(plan, faults=())
    return Alternatives(
        constant_rate_s=_walk(
            plan, lambda at_s: loss_at(plan, at_s), lambda _: p.arrival_pps
        ).seconds,
        single_path_s=_walk(plan, single_path_loss, lambda lost: _raised(plan, lost)).seconds,
        undisturbed_s=predict(calm).seconds,
        always_highest_sent=_walk(
            plan, lambda at_s: loss_at(plan, at_s), lambda _: p.most_pps
        ).sent,
    )


def _raised(plan: DownloadPlan, lost: float) -> float:
    """Packets a second so that the rate requested arrives, as far as the sender may; where next to nothing arrives, as
    before."""
    p = plan.parameters
    return p.arrival_pps if lost > MAX_LOSS else min(p.most_pps, p.arrival_pps / (1 - lost))


def _walk(
    plan: DownloadPlan, loss: Callable[[float], float], pace: Callable[[float], float]
) -> Prediction:
    """From one change of the faults to the next: ``loss`` by time in seconds, ``pace`` in packets a second by loss.

    What is sent arrives after the delay of its path, and the sender goes on until it hears that all is there.
    """
    forward_s, _, round_s = delays(plan)
    need, last_pps = float(symbols_needed(plan)), plan.parameters.arrival_pps / FILL
    moments = sorted({t for f in plan.faults for t in (f.start_s, f.stop_s)})
    now, sent, idle = 0.0, 0.0, 0.0
    for until in [*moments, float("inf")]:
        lost = loss(now)
        sending = pace(lost)
        arriving = min(last_pps, sending * (1 - lost))
        if arriving and need <= arriving * (until - now):
            return Prediction(
                seconds=now + need / arriving + forward_s,
                sent=sent + sending * (need / arriving + round_s),
                outage_s=idle,
            )
        if until == float("inf"):
            break  # a fault without end on the only way: never
        need -= arriving * (until - now)
        sent += sending * (until - now)
        idle += 0.0 if arriving else until - now
        now = until
    return Prediction(seconds=float("inf"), sent=float("inf"), outage_s=idle)


def tolerances(plan: DownloadPlan) -> tuple[float, float]:
    """Of the duration in seconds and of the packets sent, from how the sender works.

    It hears of a failure after up to two measurements and an acknowledgement, in which what is lost does not come; of
    the repair as late, in which too many packets are sent; and of the last block's decoding two acknowledgements late
    at most. What it hears of is a round trip old; the last symbol needed may come by the shortest path or by the
    longest.
    """
    p, (_, spread_s, round_s) = plan.parameters, delays(plan)
    notice_s = 2 * MEASURED_OVER / p.arrival_pps + p.ack_interval_s + round_s
    lost = [loss_at(plan, fault.start_s) for fault in plan.faults]
    ending_s = 2 * p.ack_interval_s + spread_s
    raised = sum(
        min(p.most_pps, p.arrival_pps / max(1 - share, 1e-9)) - p.arrival_pps for share in lost
    )
    return ending_s + notice_s * sum(lost), ending_s * p.most_pps + notice_s * raised


def foreseen(plan: DownloadPlan) -> Iterator[str]:
    """A line for each check whose rival lies within its tolerance."""
    expected, others, (slack_s, slack) = predict(plan), alternatives(plan), tolerances(plan)
    rival_s, name = others.nearest(expected.seconds)
    if rival_s is not None and abs(rival_s - expected.seconds) <= slack_s:
        yield f"seconds until the file is there: {name} is within {slack_s:.2g} s of them; it takes a larger file"
    if 1 < others.always_highest_sent - expected.sent <= slack:
        yield f"packets sent: the highest rate all the time is within {slack:.0f} of them; it takes a larger file"
