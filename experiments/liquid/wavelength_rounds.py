"""Rounds in which a cloud of optical cross-connects lights all pairs, run on emulated switches."""

from dataclasses import replace

from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    where,
)
from testbed.report.drawing.charts import draw_lines
from topologies import load_network

# Name of each method and kind of switch: WSXC keep the wavelength, WIXC convert it.
NAMES = {
    ("liquid", "wsxc"): "liquid, one wavelength end to end (WSXC)",
    ("liquid", "wixc"): "liquid, conversion (WIXC)",
    ("first-fit", "wsxc"): "first fit, WSXC",
    ("first-fit", "wixc"): "first fit, WIXC",
}
WAVELENGTHS = (2, 3, 4, 6, 8, 12, 16)
QUICK_WAVELENGTHS = (4, 8)

# The number of wavelengths at which a quick run compares the methods.
SHOWN_WAVELENGTHS = 8

# Packets of each lightpath and round, and additional packets on a wrong wavelength.
PACKETS = 20
WRONG = 2


def points(quick: bool, seed: int) -> Points:
    """Return the points: numbers of wavelengths, kinds of switches and methods.

    A quick run has only one point for any other number of wavelengths than ``SHOWN_WAVELENGTHS``.
    All points light all pairs of the 14 edge routers of NSFNET.
    """
    result = []
    for wavelengths in QUICK_WAVELENGTHS if quick else WAVELENGTHS:
        for switching in ("wsxc", "wixc"):
            for method in ("liquid", "first-fit"):
                usual = (switching, method) == ("wsxc", "liquid")
                if quick and wavelengths != SHOWN_WAVELENGTHS and not usual:
                    continue
                result.append(
                    {
                        "network": "optical-cloud",
                        "wavelengths": wavelengths,
                        "switching": switching,
                        "method": method,
                        "seed": seed,
                    }
                )
    return result


def measure(point: Row) -> Results:
    """Assign wavelengths, send packets in each round, and count them."""
    from testbed.wavelengths.assignment import (
        Effort,
        all_to_all,
        assign_wavelengths,
        lightpaths_between,
    )
    from testbed.wavelengths.emulated import run_wavelengths
    from testbed.wavelengths.judgement import judge_rounds

    network = load_network(point["network"])
    plan = assign_wavelengths(
        network,
        lightpaths_between(network, all_to_all(network)),
        wavelengths=point["wavelengths"],
        switching=point["switching"],
        method=point["method"],
        effort=Effort(seed=point["seed"]),
    )
    rounds = run_wavelengths(plan, packets=PACKETS, wrong=WRONG, seed=point["seed"])
    verdict = judge_rounds(plan, rounds)
    sent = 0
    delivered = 0
    misdelivered = 0
    injected = 0
    dropped = 0
    for one_round in rounds:
        sent += one_round.sent
        delivered += one_round.delivered
        misdelivered += one_round.misdelivered
        injected += sum(one_round.wrong_wavelength_packets.values())
        dropped += sum(one_round.dropped.values())
    return {
        "rounds": len(plan.rounds),
        "bound": plan.bound,
        "optimal": plan.optimal,
        "bottleneck_load": plan.bottleneck_load,
        "conversions": plan.conversions,
        "sent": sent,
        "delivered": delivered,
        "strays": misdelivered,
        "injected": injected,
        "dropped": dropped,
        "passed": verdict.passed,
        "failed": [check.name for check in verdict.checks if not check.passed],
    }


def judge(rows: Rows) -> Verdict:
    """Check that all packets are delivered as planned, and that liquid plans have fewest rounds.

    The bound for the number of rounds is the same with and without conversion of wavelengths.
    """
    checks = []
    for row in rows:
        checks.append(_delivery_check(row))
        if row["method"] == "liquid":
            checks.append(_rounds_check(row, rows))
    return Verdict.of(checks)


def _name(row: Row) -> str:
    return f"{row['method']}, {row['switching']}, {row['wavelengths']} wavelengths"


def _delivery_check(row: Row) -> Check:
    """Return a check of the delivered packets, which passes if the verdict of the run does."""
    remarks = [
        f"{row['rounds']} rounds; {row['dropped']} of {row['injected']} on wrong wavelengths "
        "dropped and counted"
    ]
    for failed_check in row["failed"]:
        remarks.append(f"not as predicted: {failed_check}")
    check = Claim(f"{_name(row)}: packets delivered on their wavelength").count(
        float(row["sent"]), float(row["delivered"])
    )
    check = check.noting("; ".join(remarks))
    events = row["sent"] + row["delivered"] + len(row["failed"])
    return replace(check, passed=bool(row["passed"])).of(events)


def _fewest_rounds(row: Row) -> int:
    """Return the bottleneck load divided by the number of wavelengths, rounded up."""
    rounds: int = -(-row["bottleneck_load"] // row["wavelengths"])
    return rounds


def _rounds_check(row: Row, rows: Rows) -> Check:
    """Check that a liquid plan has the fewest possible rounds; the rival is first fit."""
    rival = None
    rival_note = "none: first fit was not run"
    for other in where(rows, method="first-fit", switching="wsxc"):
        if other["wavelengths"] == row["wavelengths"]:
            rival = float(other["rounds"])
            rival_note = "first fit without conversion"
    return (
        Claim(f"{_name(row)}: rounds against the bound")
        .equal(float(_fewest_rounds(row)), row["rounds"])
        .cites("the fewest rounds whatever the number of wavelengths, 3.2.2")
        .against(rival, rival_note)
    )


def figures(rows: Rows) -> Figures:
    """Draw the number of rounds over the number of wavelengths."""
    samples = {}
    for row in rows:
        name = NAMES[row["method"], row["switching"]]
        samples[name, row["wavelengths"]] = (row["rounds"], 0.0)
    for row in rows:
        samples["fewest possible", row["wavelengths"]] = (_fewest_rounds(row), 0.0)
    first = rows[0]
    figure = draw_lines(
        f"All pairs of {first['network']}: bottleneck load {first['bottleneck_load']} lightpaths",
        samples,
        x="wavelengths of a fibre",
        y="rounds until every pair has been lit",
    )
    return {"rounds": figure}


STUDY = Study.of_module(
    __name__,
    title="Fewest rounds of lightpaths, whatever the number of wavelengths",
    deviations=(
        "NSFNET instead of the cloud of Figure 27, which the text does not give",
        "a wavelength is a VLAN of an emulated switch; packets are not paced",
    ),
    answers="Gabrielyan 2007, subsection 3.2.2: "
    "liquid scheduling minimises the rounds whatever the number of wavelengths",
    emulation=True,
)
