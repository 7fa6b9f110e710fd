"""What the rounds of a wavelength plan prove: what is lit arrives whole, what is dark is dropped and counted."""

from collections.abc import Sequence

from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan


def judge_wavelengths(plan: WavelengthPlan, rounds: Sequence[RoundMeasurements]) -> Judgement:
    """Verdict and document, a row a round."""
    verdict, rows = judge_rounds(plan, rounds), tuple(one.to_json() for one in rounds)
    ran = {"fabric": rounds[0].fabric if rounds else None, "per_round": list(rows)}
    return Judgement(
        verdict=verdict,
        document={**plan.to_json(), **ran, "verdict": dict(verdict.to_json())},
        rows=rows,
    )


def judge_rounds(plan: WavelengthPlan, rounds: Sequence[RoundMeasurements]) -> Verdict:
    """Rounds as computed, every packet of a lit path arrived where and as it should, every other dropped where it
    should."""
    sent, delivered = sum(r.sent for r in rounds), sum(r.delivered for r in rounds)
    complete = sum(r.lightpaths for r in rounds) - sum(len(r.incomplete) for r in rounds)
    injected = sum(sum(one_round.wrong_wavelength_packets.values()) for one_round in rounds)
    dropped = sum(sum(one_round.dropped.values()) for one_round in rounds)
    wrong = [f"round {i} at {node}" for i, r in enumerate(rounds) for node in _differing(r)]
    whole = sum(not r.incomplete and r.lightpaths > 0 for r in rounds)
    misdelivered = sum(r.misdelivered for r in rounds)
    checks = [
        _equal(
            "rounds",
            "rounds that delivered all they light",
            len(plan.rounds),
            whole,
            f"{plan.method} {plan.switching}",
        ),
        _equal(
            "lightpaths",
            "lightpaths that delivered every packet",
            len(plan.lightpaths),
            complete,
            _some(rounds),
        ),
        _equal(
            "delivered", "packets of lit paths, arrived on their wavelength", sent, delivered
        ).of(sent),
        _equal("strays", "packets that went astray", 0, misdelivered).of(sent + injected),
    ]
    if injected or dropped:
        differing = "switches whose drop counters differ from what they were given"
        checks += [
            _equal(
                "injected-dropped",
                "packets on a wrong wavelength, dropped and counted",
                injected,
                dropped,
            ),
            _equal("drop-counters", differing, 0, len(wrong), ", ".join(wrong[:5])),
        ]
    note = (
        f"{len(plan.rounds)} rounds of {plan.wavelengths} wavelengths; none has fewer than {plan.bound}"
        + (
            ""
            if plan.optimal
            else "; whether fewer suffice is not known"
            if len(plan.rounds) > plan.bound
            else ""
        )
        + f"; {plan.conversions} conversions"
    )
    return Verdict(checks=tuple(checks), notes=(note,))


def _differing(measured: RoundMeasurements) -> list[str]:
    injected = measured.wrong_wavelength_packets
    nodes = sorted({*injected, *measured.dropped})
    return [node for node in nodes if injected.get(node, 0) != measured.dropped.get(node, 0)]


def _some(rounds: Sequence[RoundMeasurements]) -> str:
    listed = [f"round {i}: {name}" for i, r in enumerate(rounds) for name in r.incomplete]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")


def _equal(key: str, name: str, predicted: int, measured: int, detail: str = "") -> Check:
    return Claim(name, key).equal(float(predicted), float(measured), 0.0).noting(detail)
