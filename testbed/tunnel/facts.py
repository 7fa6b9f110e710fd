"""Facts of a trial of a tunnel: what follows from the plan and the measurements; without I/O.

``TrialFacts`` has the facts of all rivals, and ``RivalFacts`` those of one. Each fact is computed
once, when it is first needed. None of them is a verdict: ``judgement`` compares them.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from testbed.judgement.deliveries import Deliveries, packet_deliveries
from testbed.judgement.quiet_times import near_faults
from testbed.judgement.validity import MAX_UNPLANNED
from testbed.stream.impaired.burst_loss import share_error
from testbed.stream.impaired.delay_spread import longest_wait_s
from testbed.stream.impaired.tolerances import SIGMAS
from testbed.stream.prediction.active_faults import impaired_spans
from testbed.stream.prediction.path_delays import longest_path_delay_s
from testbed.tunnel.drawn_figures import PACKET_BYTES, DrawnFigures, Estimate
from testbed.tunnel.options import WORKLOADS
from testbed.tunnel.plan import EndLog
from testbed.tunnel.prediction import RivalPrediction, predict_rival
from testbed.tunnel.trial import EVERY_S, RivalRun, TrialMeasurements, TrialPlan
from testbed.tunnel.virtual_time import draw_direct_losses, draw_trial, is_impaired
from testbed.tunnel.voice_quality import PLAYOUT_S, call_opinion
from topologies import JsonObject
from topologies.impairments import Impairment, RateTrace

# Beside propagation, a packet sent this near to a fault may be lost by it.
_GUARD_S = 0.1
# Keys of the results of programs that are pictures and not numbers.
_PICTURES = ("clip", "moments")


class RivalFacts:
    """Facts of the run of one rival."""

    def __init__(self, plan: TrialPlan, run: RivalRun) -> None:
        self.plan = plan
        self.run = run

    # Predictions.

    @cached_property
    def prediction(self) -> RivalPrediction:
        """The prediction for this rival."""
        return predict_rival(self.plan, self.run.rival)

    @cached_property
    def drawn(self) -> DrawnFigures | None:
        """Monte Carlo estimates of a tunnel's figures over impaired links.

        They are None without impairments, and for TCP alone, because it fills every queue.
        """
        if self.plan.only_tcp or not self.directions or not is_impaired(self.plan):
            return None
        draws = draw_trial(self.plan, self.run.rival, self.offered)
        return DrawnFigures(draws, self.offered) if draws else None

    # Packets.

    @cached_property
    def directions(self) -> tuple[tuple[EndLog, EndLog], ...]:
        """The logs of the sending and of the receiving end, for each direction.

        The direct path has no such logs, and the result is empty.
        """
        if not (self.run.source and self.run.sink):
            return ()
        return (self.run.source, self.run.sink), (self.run.sink, self.run.source)

    @cached_property
    def offered(self) -> list[NDArray[np.void]]:
        """Records of the packets offered in each direction."""
        return [sender["offered"] for sender, _ in self.directions]

    @cached_property
    def active_faults(self) -> int:
        """The number of planned faults that were active."""
        active = {times.fault for times in self.run.faults if times.stop_s > times.start_s}
        return len(active.intersection(self.plan.faults))

    @cached_property
    def spare_packets(self) -> float:
        """The number of packets of the run above the minimum for its checks; negative if below.

        The minimum is that of the program with the highest one (``TrialPlan.least_sent``).
        """
        min_sent = [self.plan.least_sent(name) for name in WORKLOADS if name in self.row]
        packets: int = self.row["packets"]
        return packets - max(min_sent, default=0)

    @cached_property
    def waited_s(self) -> float:
        """The largest transit time of a source packet beyond the delay of the longest path.

        It is 0 for the direct path and over impaired links, where it is not measured.
        """
        return self._unplanned[0]

    @cached_property
    def lost_outside(self) -> int:
        """The number of packets that were lost although no link was broken.

        The accepted share (``MAX_UNPLANNED``) is subtracted. It is 0 for the direct path and over
        impaired links, where it is not measured.
        """
        return self._unplanned[1]

    @cached_property
    def _unplanned(self) -> tuple[float, int]:
        """``waited_s`` and ``lost_outside``.

        A source packet that arrives after its block was decoded is logged as recovered, but counts
        as arrived.
        """
        plan = self.plan
        run = self.run
        if not (run.source and run.sink):
            return 0.0, 0
        if any(link.impairments for link in plan.network.links):
            return 0.0, 0
        offered = run.source["offered"]
        delivered = run.sink["delivered"]
        originals = _deliveries(offered, delivered[~delivered["recovered"]], "came_s")
        in_transit_s = np.abs(originals.transit_s[~originals.lost])
        # A packet that arrived before it was sent, or after it was delivered, has no valid time.
        early_s = delivered["came_s"] - delivered["at_s"]
        waited_s = float(max(in_transit_s.max(initial=0.0), early_s.max(initial=0.0)))
        propagation_s = longest_path_delay_s(plan.tunnel.there)
        before_s = _GUARD_S + propagation_s
        near = near_faults(offered["at_s"], run.faults, before_s=before_s, after_s=_GUARD_S)
        missing = int((originals.lost & ~near).sum())
        outside = missing - int(run.sink["counters"].get("unused_sources", 0))
        return waited_s - propagation_s, max(0, outside - int(MAX_UNPLANNED * len(offered)))

    # Figures.

    @cached_property
    def row(self) -> JsonObject:
        """The figures of this rival; those of a tunnel add up both directions."""
        row: JsonObject = {"rival": self.run.rival}
        if self.directions:
            row |= self._tunnel_figures()
        programs: JsonObject = {}
        for name, figures in self.run.programs.items():
            programs[name] = {key: figures[key] for key in figures if key not in _PICTURES}
        voice = programs.pop("voip", None)
        if voice:
            programs["voip"] = _voice_figures(np.array(voice["delay_s"]))
        return row | programs

    def _totals(self) -> "_Totals":
        """Return the counts of both directions together."""
        plan = self.plan
        comparison = "static" if self.run.rival == "none" else "none"
        comparison_prediction = predict_rival(plan, comparison)
        back_prediction = predict_rival(plan.reversed(), self.run.rival)
        totals = _Totals()
        there, back = self.directions
        totals.add_direction(plan, *there, self.prediction, comparison_prediction)
        totals.add_direction(plan, *back, back_prediction, comparison_prediction)
        return totals

    def _tunnel_figures(self) -> JsonObject:
        """Return the measured and predicted figures of a tunnel, of both directions together."""
        totals = self._totals()
        drawn = self.drawn
        packets = totals.packets
        offered_bytes = max(1, totals.offered_bytes)
        original_loss = self.prediction.original_loss
        if packets:
            original_loss = totals.predicted_lost / packets
        most_lost = math.ceil(self.prediction.most_loss * packets)
        predicted_wire = totals.predicted_wire_bytes / offered_bytes
        ratios: JsonObject = {}
        if drawn is not None:
            if not loses_at_random_only(self.plan):
                original_loss = drawn.original_loss().mean
            most_lost = math.ceil(drawn.lost().mean + drawn.lost().spread)
            if self.run.rival == "adaptive":
                low, high = drawn.wire_ratios()
                predicted_wire = (low + high) / 2
                ratios = {"predicted_wire_ratios": [round(low, 3), round(high, 3)]}
        source, sink = self.directions[0]
        return ratios | {
            "predicted_original_loss": round(original_loss, 5),
            "packets": packets,
            "lost": totals.lost,
            "predicted_most_lost": most_lost,
            "original_loss": round(totals.never_arrived / max(1, packets), 5),
            "recovered": totals.recovered,
            "undecodable_blocks": totals.undecodable,
            "wire_ratio": round(totals.wire_bytes / offered_bytes, 3),
            "predicted_wire_ratio": round(predicted_wire, 3),
            "rival_wire_ratio": round(totals.comparison_wire_bytes / offered_bytes, 3),
            "report_bytes": sink["counters"]["report_bytes"],
            "delay_s": _delays_s(source, sink),
            "processor_share": source["counters"]["processor_share"],
        }


class TrialFacts:
    """Facts of one trial, of all rivals together.

    Attributes:
        plan: The trial.
        run: Its measurements.
        rivals: The facts of each rival, in the order of their runs.
    """

    def __init__(self, plan: TrialPlan, run: TrialMeasurements) -> None:
        self.plan = plan
        self.run = run
        self.rivals = tuple(RivalFacts(plan, rival_run) for rival_run in run.runs)

    @cached_property
    def rows(self) -> Mapping[str, JsonObject]:
        """The figures of each rival that ran; the direct path has its predicted loss too."""
        rows = {}
        for rival in self.rivals:
            row = rival.row
            if rival.run.rival == "direct":
                row = row | self._direct_loss_figures()
            rows[rival.run.rival] = row
        return rows

    def _direct_loss_figures(self) -> JsonObject:
        """Return the predicted loss of the direct path, None if unknown, and its spread."""
        loss = self.direct_loss
        if loss is None:
            return {"predicted_original_loss": None, "original_loss_spread": 0.0}
        return {"predicted_original_loss": round(loss.mean, 5), "original_loss_spread": loss.spread}

    @cached_property
    def direct_loss(self) -> Estimate | None:
        """The share of voice packets that the direct path loses; None if it is unknown.

        The drops of a rate trace's queue depend on the packets of all programs, and only the ends
        of a tunnel log these.
        """
        if loses_at_random_only(self.plan):
            mean = predict_rival(self.plan, "direct").original_loss
            return Estimate(round(mean, 5), _direct_spread(self.plan))
        for rival in self.rivals:
            if rival.directions:
                losses = draw_direct_losses(self.plan, rival.offered, PACKET_BYTES["voip"])
                return Estimate.of(losses)
        return None

    @cached_property
    def absent(self) -> list[str]:
        """The rivals and workloads that were planned and did not run, such as "rival:none"."""
        absent = [f"rival:{name}" for name in self.plan.rivals if name not in self.rows]
        reported: Collection[str] = self.plan.workloads
        for rival in self.rivals:
            if rival.run.rival == "adaptive":
                reported = rival.run.programs.keys() | self.run.missing
                break
        absent += [f"workload:{name}" for name in self.plan.workloads if name not in reported]
        return absent


@dataclass
class _Totals:
    """Counts of the packets and bytes of a tunnel, added up over its directions.

    Attributes:
        packets: Packets offered.
        offered_bytes: Bytes of the packets offered.
        lost: Packets not delivered.
        never_arrived: Source packets that did not arrive in time, even if they were recovered.
        recovered: Packets that the code recovered.
        undecodable: Blocks that could not be decoded.
        wire_bytes: Bytes sent.
        predicted_lost: Prediction of the packets lost by the network.
        predicted_wire_bytes: Prediction of ``wire_bytes``.
        comparison_wire_bytes: Prediction of ``wire_bytes`` for the rival of the comparison.
    """

    packets: int = 0
    offered_bytes: int = 0
    lost: int = 0
    never_arrived: int = 0
    recovered: int = 0
    undecodable: int = 0
    wire_bytes: int = 0
    predicted_lost: float = 0.0
    predicted_wire_bytes: float = 0.0
    comparison_wire_bytes: float = 0.0

    def add_direction(
        self,
        plan: TrialPlan,
        sender: EndLog,
        receiver: EndLog,
        prediction: RivalPrediction,
        comparison: RivalPrediction,
    ) -> None:
        """Add the packets that one end sent and the other received."""
        offered = sender["offered"]
        counts = receiver["counters"]
        lost = len(offered) - len(receiver["delivered"])
        recovered = int(counts.get("recovered", 0))
        self.packets += len(offered)
        self.offered_bytes += int(offered["bytes"].sum())
        self.lost += lost
        self.recovered += recovered
        # A source packet that arrived after its block was decoded is unused, but did arrive.
        self.never_arrived += lost + recovered - int(counts.get("unused_sources", 0))
        self.undecodable += int(counts.get("undecodable_blocks", 0))
        self.wire_bytes += int(sender["counters"]["wire_bytes"])
        self.predicted_lost += prediction.original_loss * len(offered)
        self.predicted_wire_bytes += prediction.wire_bytes(plan, offered)
        self.comparison_wire_bytes += comparison.wire_bytes(plan, offered)


def _voice_figures(delay_s: NDArray[np.float64]) -> JsonObject:
    """Return the figures of voice packets with these delays; infinite for a lost packet."""
    late = np.isfinite(delay_s) & (delay_s > PLAYOUT_S)
    played = (delay_s >= 0) & (delay_s <= PLAYOUT_S)
    return {
        "sent": len(delay_s),
        "lost": int(np.isinf(delay_s).sum()),
        "late": int(late.sum()),
        "mos": round(call_opinion(~played), 2),
    }


def _delays_s(source: EndLog, sink: EndLog) -> JsonObject:
    """Return percentiles of the packet delays from program to program, in seconds."""
    fates = _deliveries(source["offered"], sink["delivered"], "at_s")
    if fates.lost.all():
        return {}
    delays_s = np.percentile(fates.transit_s[~fates.lost], [50, 95, 99, 100])
    return dict(zip(("median", "p95", "p99", "worst"), np.round(delays_s, 5).tolist(), strict=True))


def _deliveries(
    offered: NDArray[np.void], delivered: NDArray[np.void], time_name: str
) -> Deliveries:
    """Return which offered packets were lost, and how long the others took.

    Args:
        offered: Records of the packets offered at one end.
        delivered: Records of the packets delivered at the other end.
        time_name: The field of ``delivered`` with the time of arrival.
    """
    key = ["flow", "number", "bytes"]
    return packet_deliveries(offered[key], offered["at_s"], delivered[key], delivered[time_name])


def _direct_spread(plan: TrialPlan) -> float:
    """Return how far the share of voice packets that the direct path loses may be from its mean.

    This is ``SIGMAS`` standard deviations.
    """
    links: set[int] = set()
    for path in plan.direct.paths:
        links.update(path.links)
    impairments: list[Impairment] = []
    for span in impaired_spans(plan.network, plan.faults):
        if span.link in links:
            impairments += span.impairments
    if not impairments:
        return 0.0
    packets = int(plan.duration_s / EVERY_S)
    return SIGMAS * share_error(tuple(impairments), packets)


def tunnel_spread(plan: TrialPlan, packets: int) -> float:
    """Return how far the share of packets that the tunnel's links lose may be from its mean.

    This is ``SIGMAS`` standard deviations, by theory: the few Monte Carlo draws of a trial may have
    a far smaller spread.
    """
    variance = 0.0
    for split in (plan.tunnel.there.forward, plan.tunnel.back.forward):
        for span in impaired_spans(plan.network, plan.faults):
            load = float(split.load(span.link))
            crossing = max(1, round(load * packets / 2))
            if load > 0:
                variance += (load / 2 * share_error(span.impairments, crossing)) ** 2
    return SIGMAS * math.sqrt(variance)


def is_traced(plan: TrialPlan) -> bool:
    """Return whether a link has the changing rate of a trace."""
    for span in impaired_spans(plan.network, plan.faults):
        if any(isinstance(impairment, RateTrace) for impairment in span.impairments):
            return True
    return False


def loses_at_random_only(plan: TrialPlan) -> bool:
    """Return whether all losses are random: none in a queue, and none because of a long delay."""
    if is_traced(plan):
        return False
    spans = impaired_spans(plan.network, plan.faults)
    wait_s = max((longest_wait_s(span.impairments) for span in spans), default=0.0)
    return wait_s <= plan.tunnel.there.stream.playback_s / 4
