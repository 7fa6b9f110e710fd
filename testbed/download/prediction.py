"""Predicts the duration and the number of packets of a download and of its rivals.

Source: Gabrielyan 2007, section 4.3.3 (a sender with an adaptive transmission rate feeds the last
mile at its maximal bandwidth).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from fec.protocol.large_blocks import MAX_LOSS, MEASURED_OVER, PREAMBLE_BYTES
from testbed.download.plan import FILL, RETURN_LABELS, DownloadPlan
from testbed.model.label_split import LABELS
from testbed.stream.prediction.active_faults import faulty_links


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The prediction for a download.

    Attributes:
        seconds: Time until the last symbol that is needed arrives; infinite for never.
        sent: Number of symbols sent.
        outage_s: Total time without a path.
    """

    seconds: float
    sent: float
    outage_s: float


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """Predictions for other downloads of the same file.

    Attributes:
        constant_rate_s: Duration with a sender that never raises its rate.
        single_path_s: Duration over a single path, on the links that fail.
        undisturbed_s: Duration without failures.
        always_highest_sent: Number of packets of a sender that always sends at its highest rate.
    """

    constant_rate_s: float
    single_path_s: float
    undisturbed_s: float
    always_highest_sent: float

    def nearest(self, expected_s: float) -> tuple[float | None, str]:
        """Return the duration of the nearest rival, and its description.

        The duration is None if no failure loses any packet, so that all durations are equal.

        Args:
            expected_s: The predicted duration of the download.
        """
        if self.constant_rate_s - expected_s > 1e-9:
            return self.constant_rate_s, "a sender that never raises its rate"
        if expected_s - self.undisturbed_s > 1e-9:
            return self.undisturbed_s, "a download that no failure disturbs"
        return None, "no rival: no failure takes a packet, so that nothing calls for a higher rate"


def symbols_needed(plan: DownloadPlan) -> int:
    """Return the number of symbols of the file and its preamble, which must arrive.

    A block of RaptorQ may need two more, which are not counted.
    """
    return -(-(plan.file_bytes + PREAMBLE_BYTES) // plan.parameters.symbol_bytes)


def delays(plan: DownloadPlan) -> tuple[float, float, float]:
    """Return propagation delays in seconds.

    Returns:
        The mean delay from source to sink over all labels; the difference between the longest and
        the shortest path; and the mean round-trip time. Acknowledgements are sent over two paths,
        of which the shorter one counts.
    """

    def path_delay_s(links: Iterable[int]) -> float:
        return sum(plan.network.links[index].delay_s for index in links)

    delays_s = [path_delay_s(path.links) for path in plan.forward.paths]
    forward_s = 0.0
    for delay_s, path in zip(delays_s, plan.forward.paths, strict=True):
        forward_s += delay_s * (path.stop - path.start)
    forward_s /= LABELS
    back_s = min(path_delay_s(plan.backward.path_of(label).links) for label in RETURN_LABELS)
    return forward_s, max(delays_s) - min(delays_s), forward_s + back_s


def loss_at(plan: DownloadPlan, at_s: float) -> float:
    """Return the share of packets lost at a time, by all active faults together."""
    loss_by_link: dict[int, float] = {}
    for fault in plan.faults:
        if fault.start_s <= at_s < fault.stop_s:
            for index in faulty_links(plan.network, fault):
                loss_by_link[index] = fault.loss_fraction
    delivered_labels = 0.0
    for path in plan.forward.paths:
        share = 1.0
        for index in path.links:
            share *= 1 - loss_by_link.get(index, 0.0)
        delivered_labels += share * (path.stop - path.start)
    return 1 - delivered_labels / LABELS


def predict(plan: DownloadPlan) -> Prediction:
    """Predict a download: symbols arrive at the requested rate whenever a path is left."""
    return _predict_with(plan, partial(loss_at, plan), partial(_raised_rate_pps, plan))


def alternatives(plan: DownloadPlan) -> Alternatives:
    """Predict the rivals of a download.

    Their durations are equal to that of the download if nothing is lost, or no path is left.
    """

    def single_path_loss(at_s: float) -> float:
        loss = 0.0
        for fault in plan.faults:
            if fault.start_s <= at_s < fault.stop_s:
                loss = max(loss, fault.loss_fraction)
        return loss

    def requested_rate_pps(_loss: float) -> float:
        return plan.parameters.arrival_pps

    def highest_rate_pps(_loss: float) -> float:
        return plan.parameters.max_pps

    loss = partial(loss_at, plan)
    constant_rate = _predict_with(plan, loss, requested_rate_pps)
    single_path = _predict_with(plan, single_path_loss, partial(_raised_rate_pps, plan))
    highest_rate = _predict_with(plan, loss, highest_rate_pps)
    return Alternatives(
        constant_rate_s=constant_rate.seconds,
        single_path_s=single_path.seconds,
        undisturbed_s=predict(replace(plan, faults=())).seconds,
        always_highest_sent=highest_rate.sent,
    )


def _raised_rate_pps(plan: DownloadPlan, loss: float) -> float:
    """Return the rate in packets per second at which the requested rate arrives despite this loss.

    It is at most the sender's highest rate. If almost everything is lost, the rate is not raised.
    """
    parameters = plan.parameters
    if loss > MAX_LOSS:
        return parameters.arrival_pps
    return min(parameters.max_pps, parameters.arrival_pps / (1 - loss))


def _predict_with(
    plan: DownloadPlan,
    loss_at_time: Callable[[float], float],
    rate_at_loss: Callable[[float], float],
) -> Prediction:
    """Predict a download with any loss and any sender.

    A packet arrives after the mean delay of the paths. The sender continues for a round-trip time
    after the last symbol that is needed, until it learns that the file is complete.

    Args:
        plan: The download.
        loss_at_time: Returns the share of packets lost at a time (s).
        rate_at_loss: Returns the rate of the sender in packets per second for a share of losses.
    """
    forward_s, _, round_trip_s = delays(plan)
    missing = float(symbols_needed(plan))
    last_mile_pps = plan.parameters.arrival_pps / FILL
    changes_s: set[float] = set()
    for fault in plan.faults:
        changes_s.add(fault.start_s)
        changes_s.add(fault.stop_s)
    now_s = 0.0
    sent = 0.0
    outage_s = 0.0
    # Loss and rates are constant from one change of the faults to the next.
    for until_s in [*sorted(changes_s), math.inf]:
        loss = loss_at_time(now_s)
        rate_pps = rate_at_loss(loss)
        arrival_pps = min(last_mile_pps, rate_pps * (1 - loss))
        if arrival_pps and missing <= arrival_pps * (until_s - now_s):
            return Prediction(
                seconds=now_s + missing / arrival_pps + forward_s,
                sent=sent + rate_pps * (missing / arrival_pps + round_trip_s),
                outage_s=outage_s,
            )
        if until_s == math.inf:
            # A permanent fault leaves no path.
            break
        missing -= arrival_pps * (until_s - now_s)
        sent += rate_pps * (until_s - now_s)
        if not arrival_pps:
            outage_s += until_s - now_s
        now_s = until_s
    return Prediction(seconds=math.inf, sent=math.inf, outage_s=outage_s)


def tolerances(plan: DownloadPlan) -> tuple[float, float]:
    """Return the tolerances of the duration (s) and of the number of packets sent.

    They follow from the delays of the sender's information:

    - It learns of a failure after up to two measurements and an acknowledgement. Until then, lost
      packets are not replaced.
    - It learns of the repair as late. Until then, it sends too many packets.
    - It learns that the last block was decoded up to two acknowledgements late.
    - All information is a round-trip time old, and the last symbol may arrive on the shortest or on
      the longest path.
    """
    parameters = plan.parameters
    _, spread_s, round_trip_s = delays(plan)
    measuring_s = 2 * MEASURED_OVER / parameters.arrival_pps
    notice_s = measuring_s + parameters.ack_interval_s + round_trip_s
    ending_s = 2 * parameters.ack_interval_s + spread_s
    total_loss = 0.0
    total_increase_pps = 0.0
    for fault in plan.faults:
        loss = loss_at(plan, fault.start_s)
        # The bound avoids a division by 0 if everything is lost.
        raised_pps = parameters.arrival_pps / max(1 - loss, 1e-9)
        total_loss += loss
        total_increase_pps += min(parameters.max_pps, raised_pps) - parameters.arrival_pps
    tolerance_s = ending_s + notice_s * total_loss
    tolerance_packets = ending_s * parameters.max_pps + notice_s * total_increase_pps
    return tolerance_s, tolerance_packets


def foreseen(plan: DownloadPlan) -> Iterator[str]:
    """Yield a line for each check that will not be able to distinguish the download from its rival.

    The difference of their predictions is within the tolerance.
    """
    expected = predict(plan)
    rivals = alternatives(plan)
    tolerance_s, tolerance_packets = tolerances(plan)
    rival_s, rival = rivals.nearest(expected.seconds)
    if rival_s is not None and abs(rival_s - expected.seconds) <= tolerance_s:
        yield (
            f"seconds until the file is there: {rival} is within {tolerance_s:.2g} s of them; "
            "it takes a larger file"
        )
    if 1 < rivals.always_highest_sent - expected.sent <= tolerance_packets:
        yield (
            "packets sent: the highest rate all the time is within "
            f"{tolerance_packets:.0f} of them; it takes a larger file"
        )
