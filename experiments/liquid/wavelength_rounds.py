"""Rounds that a cloud of optical cross-connects needs for all pairs, computed, and run on real switches round by
round."""

from dataclasses import replace

from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, where
from testbed.report.drawing.charts import draw_lines
from topologies import load_network

NAMES = {
    ("liquid", "wsxc"): "liquid, one wavelength end to end (WSXC)",
    ("liquid", "wixc"): "liquid, conversion (WIXC)",
    ("first-fit", "wsxc"): "first fit, WSXC",
    ("first-fit", "wixc"): "first fit, WIXC",
}
SHOWN_WAVELENGTHS = 8
PACKETS, WRONG = 20, 2


def points(quick: bool, seed: int) -> Points:
    """All pairs of the 14 edge routers of NSFNET: wavelengths, switches, method."""
    return [
        {
            "network": "optical-cloud",
            "wavelengths": count,
            "switching": switching,
            "method": method,
            "seed": seed,
        }
        for count in ((4, 8) if quick else (2, 3, 4, 6, 8, 12, 16))
        for switching in ("wsxc", "wixc")
        for method in ("liquid", "first-fit")
        if not quick or count == SHOWN_WAVELENGTHS or (switching, method) == ("wsxc", "liquid")
    ]


def measure(point: Row) -> Results:
    """The plan, and what became of the packets of its rounds."""
    from testbed.wavelengths.assignment import (
        Effort,
        all_to_all,
        assign_wavelengths,
        lightpaths_between,
    )
    from testbed.wavelengths.emulated import run_wavelengths
    from testbed.wavelengths.judgement import judge_rounds

    network = load_network(point["network"])
    lightpaths, how = (
        lightpaths_between(network, all_to_all(network)),
        ("wavelengths", "switching", "method"),
    )
    effort = Effort(seed=point["seed"])
    plan = assign_wavelengths(
        network, lightpaths, **{key: point[key] for key in how}, effort=effort
    )
    rounds = run_wavelengths(plan, packets=PACKETS, wrong=WRONG, seed=point["seed"])
    verdict = judge_rounds(plan, rounds)
    return {
        "rounds": len(plan.rounds),
        **{
            name: getattr(plan, name)
            for name in ("bound", "optimal", "bottleneck_load", "conversions")
        },
        "sent": sum(one_round.sent for one_round in rounds),
        "delivered": sum(one_round.delivered for one_round in rounds),
        "strays": sum(one_round.misdelivered for one_round in rounds),
        "injected": sum(sum(one_round.wrong_wavelength_packets.values()) for one_round in rounds),
        "dropped": sum(sum(one_round.dropped.values()) for one_round in rounds),
        "passed": verdict.passed,
        "failed": [check.name for check in verdict.checks if not check.passed],
    }


def judge(rows: Rows) -> Verdict:
    """Every run as computed; liquid plans as short as the bottleneck allows; conversion makes no liquid plan shorter
    here."""
    checks = []
    first_fit = {
        row["wavelengths"]: float(row["rounds"])
        for row in where(rows, method="first-fit", switching="wsxc")
    }
    for row in rows:
        name = f"{row['method']}, {row['switching']}, {row['wavelengths']} wavelengths"
        wrong = f"{row['rounds']} rounds; {row['dropped']} of {row['injected']} on wrong wavelengths dropped and counted"
        check = Claim(f"{name}: packets delivered on their wavelength").count(
            float(row["sent"]), float(row["delivered"])
        )
        check = check.noting(
            wrong + "".join(f"; not as predicted: {failed}" for failed in row["failed"])
        )
        events = row["sent"] + row["delivered"] + len(row["failed"])
        checks.append(replace(check, passed=bool(row["passed"])).of(events))
        if row["method"] == "liquid":
            rival = first_fit.get(row["wavelengths"])
            checks.append(
                Claim(f"{name}: rounds against the bound")
                .equal(float(-(-row["bottleneck_load"] // row["wavelengths"])), row["rounds"])
                .cites("the fewest rounds whatever the number of wavelengths, 3.2.2")
                .against(
                    rival,
                    "first fit without conversion" if rival else "none: first fit was not run",
                )
            )
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Rounds against wavelengths, for liquid and first fit."""
    load = rows[0]["bottleneck_load"]
    samples = {
        (NAMES[row["method"], row["switching"]], row["wavelengths"]): (row["rounds"], 0.0)
        for row in rows
    }
    fewest = {
        ("fewest possible", row["wavelengths"]): (-(-load // row["wavelengths"]), 0.0)
        for row in rows
    }
    title = f"All pairs of {rows[0]['network']}: bottleneck load {load} lightpaths"
    x, y = "wavelengths of a fibre", "rounds until every pair has been lit"
    return {"rounds": draw_lines(title, samples | fewest, x=x, y=y)}


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
