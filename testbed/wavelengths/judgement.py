"""Judges the rounds of a wavelength plan.

All packets on lit wavelengths must arrive, and all other packets must be dropped and counted.
"""

from collections.abc import Sequence

from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan

# Largest number of switches, or of lightpaths, that the text of a check lists.
_MAX_LISTED = 5


def judge_wavelengths(plan: WavelengthPlan, rounds: Sequence[RoundMeasurements]) -> Judgement:
    """Return the verdict and the JSON document of a run, with one row for each round."""
    verdict = judge_rounds(plan, rounds)
    rows = tuple(each.to_json() for each in rounds)
    document = {
        **plan.to_json(),
        "fabric": rounds[0].fabric if rounds else None,
        "per_round": list(rows),
        "verdict": dict(verdict.to_json()),
    }
    return Judgement(verdict=verdict, document=document, rows=rows)


def judge_rounds(plan: WavelengthPlan, rounds: Sequence[RoundMeasurements]) -> Verdict:
    """Return the verdict of a run.

    The rounds must be those of the plan. Every packet of a lit path must have arrived at its host
    on its wavelength. Every other packet must have been dropped at its switch.
    """
    sent = sum(each.sent for each in rounds)
    delivered = sum(each.delivered for each in rounds)
    misdelivered = sum(each.misdelivered for each in rounds)
    injected = sum(sum(each.wrong_wavelength_packets.values()) for each in rounds)
    dropped = sum(sum(each.dropped.values()) for each in rounds)
    complete_lightpaths = sum(each.lightpaths - len(each.incomplete) for each in rounds)
    complete_rounds = len([each for each in rounds if each.lightpaths and not each.incomplete])
    checks = [
        _equal(
            "rounds",
            "rounds that delivered all they light",
            len(plan.rounds),
            complete_rounds,
            f"{plan.method} {plan.switching}",
        ),
        _equal(
            "lightpaths",
            "lightpaths that delivered every packet",
            len(plan.lightpaths),
            complete_lightpaths,
            _incomplete_lightpaths(rounds),
        ),
        _equal(
            "delivered", "packets of lit paths, arrived on their wavelength", sent, delivered
        ).of(sent),
        _equal("strays", "packets that went astray", 0, misdelivered).of(sent + injected),
    ]
    if injected or dropped:
        differing: list[str] = []
        for i, measured in enumerate(rounds):
            differing += [f"round {i} at {node}" for node in _differing_switches(measured)]
        checks += [
            _equal(
                "injected-dropped",
                "packets on a wrong wavelength, dropped and counted",
                injected,
                dropped,
            ),
            _equal(
                "drop-counters",
                "switches whose drop counters differ from what they were given",
                0,
                len(differing),
                ", ".join(differing[:_MAX_LISTED]),
            ),
        ]
    return Verdict(checks=tuple(checks), notes=(_note(plan),))


def _note(plan: WavelengthPlan) -> str:
    note = (
        f"{len(plan.rounds)} rounds of {plan.wavelengths} wavelengths;"
        f" none has fewer than {plan.bound}"
    )
    if not plan.optimal and len(plan.rounds) > plan.bound:
        note += "; whether fewer suffice is not known"
    return f"{note}; {plan.conversions} conversions"


def _differing_switches(measured: RoundMeasurements) -> list[str]:
    """Return the switches whose drop counters differ from the number of packets to be dropped."""
    injected = measured.wrong_wavelength_packets
    nodes = sorted({*injected, *measured.dropped})
    return [node for node in nodes if injected.get(node, 0) != measured.dropped.get(node, 0)]


def _incomplete_lightpaths(rounds: Sequence[RoundMeasurements]) -> str:
    """Return a list, as text, of the lightpaths that did not deliver every packet."""
    names: list[str] = []
    for i, measured in enumerate(rounds):
        names += [f"round {i}: {name}" for name in measured.incomplete]
    listed = ", ".join(names[:_MAX_LISTED])
    if len(names) > _MAX_LISTED:
        listed += f" and {len(names) - _MAX_LISTED} more"
    return listed


def _equal(key: str, name: str, predicted: int, measured: int, detail: str = "") -> Check:
    return Claim(name, key).equal(float(predicted), float(measured), 0.0).noting(detail)
