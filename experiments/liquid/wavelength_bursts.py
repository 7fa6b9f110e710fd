"""Optical burst switching: buffers emptied by repeated liquid schedules against bursts assigned one by one, over the load.

The thesis proposes it as further work; the verdict says what of it holds, and its notes what does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict
from testbed.wavelengths.burst_switching import STRATEGIES, BurstTraffic, optical_cloud_of, simulate_bursts
from topologies import load_network

Row = Mapping[str, Any]
LOADS = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
QUICK_LOADS = (0.3, 0.6, 0.8, 0.95)
HIGH_LOAD, LOSSLESS_UP_TO = 0.8, 0.9
NAMES = {
    "liquid": "liquid schedules, one after the other",
    "liquid-rolling": "liquid schedule anew in every slot",
    "greedy-defer": "first fit, waits (knows all reservations)",
    "greedy-drop": "first fit, lost where none is free",
}
LOOKS = {
    "liquid": ("#0072b2", "o", "-"),
    "liquid-rolling": ("#009e73", "s", "-"),
    "greedy-defer": ("#d55e00", "^", "--"),
    "greedy-drop": ("#555555", "v", "--"),
}


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Every strategy at every load, without conversion; and with it."""
    return [
        {
            "network": "optical-cloud",
            "switching": switching,
            "wavelengths": 8,
            "load": load,
            "strategy": strategy,
            "slots": 400 if quick else 2000,
            "seed": seed,
        }
        for switching in (("wsxc",) if quick else ("wsxc", "wixc"))
        for load in (QUICK_LOADS if quick else LOADS)
        for strategy in STRATEGIES
    ]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """One strategy under one load."""
    network = load_network(point["network"])
    cloud = optical_cloud_of(network, wavelengths=point["wavelengths"], switching=point["switching"])
    slots = point["slots"]
    traffic = BurstTraffic(load=point["load"], slots=slots, warm_up_slots=slots // 10, seed=point["seed"])
    return asdict(simulate_bursts(cloud, traffic, point["strategy"]))


def judge(rows: Sequence[Row]) -> Verdict:
    """What of the proposal holds, without conversion; delays of its plain form, and what conversion changes, are notes."""
    kept = [row for row in rows if row["switching"] == "wsxc"]
    loads = sorted({row["load"] for row in kept})
    losses = [r["loss"] for r in kept if r["strategy"].startswith("liquid") and r["load"] <= LOSSLESS_UP_TO]
    high = [load for load in loads if load >= HIGH_LOAD]
    checks = [
        Check.equal(f"bursts lost by liquid schedules at loads up to {LOSSLESS_UP_TO:g}", 0.0, max(losses)),
        _carried_check(kept, high, "greedy-drop", 1.1),
        _carried_check(kept, high, "greedy-defer", 1.0),
    ]
    checks += [_delay_check(kept, load) for load in high]
    notes = [_slower(kept, load, "liquid") for load in dict.fromkeys((high[0], high[-1]))]
    converted = [row for row in rows if row["switching"] == "wixc"]
    notes += [_slower(converted, load, "liquid-rolling") for load in high[-1:] if converted]
    return Verdict(checks=tuple(checks), notes=tuple(notes))


def _carried_check(rows: Sequence[Row], loads: Sequence[float], other: str, least: float) -> Check:
    """What successive liquid schedules carry, as the thesis proposes them, over what first fit carries; half a percent is
    the weight of what is still on its way at the end."""
    ratios = [_of(rows, load, "liquid", "throughput") / _of(rows, load, other, "throughput") for load in loads]
    return Check(
        name=f"carried by {NAMES['liquid']}, over {NAMES[other]}: least at loads of {HIGH_LOAD:g} and more",
        predicted=least,
        measured=min(ratios),
        tolerance=0.005,
        passed=min(ratios) >= least - 0.005,
        detail=f"{least:g} or more",
    )


def _delay_check(rows: Sequence[Row], load: float) -> Check:
    ratio = _of(rows, load, "liquid-rolling", "mean_delay_slots") / _of(rows, load, "greedy-defer", "mean_delay_slots")
    return Check.at_most(
        f"mean delay, liquid anew in every slot over first fit that waits, at load {load:g}",
        1.0,
        ratio,
        detail="1 or less",
    )


def _slower(rows: Sequence[Row], load: float, strategy: str) -> str:
    ratio = _of(rows, load, strategy, "mean_delay_slots") / _of(rows, load, "greedy-defer", "mean_delay_slots")
    carried = _of(rows, load, strategy, "throughput"), _of(rows, load, "greedy-defer", "throughput")
    return (
        f"{rows[0]['switching']}, load {load:g}: {NAMES[strategy]}: {ratio:.2f} times the mean delay of first fit that waits, "
        f"carries {carried[0]:.3f} of what is offered (first fit: {carried[1]:.3f})"
    )


def _of(rows: Sequence[Row], load: float, strategy: str, name: str) -> float:
    return float(next(r[name] for r in rows if r["load"] == load and r["strategy"] == strategy))


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Delay, share lost and bursts waiting, against the load; one figure a kind of switch."""
    kinds = {"wsxc": "without conversion (WSXC)", "wixc": "with conversion (WIXC)"}
    return {
        f"bursts-{kind}": _figure([row for row in rows if row["switching"] == kind], title)
        for kind, title in kinds.items()
        if any(row["switching"] == kind for row in rows)
    }


def _figure(rows: Sequence[Row], title: str) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    figure = Figure(figsize=(10, 7.2), layout="constrained")
    first = rows[0]
    figure.suptitle(f"Optical burst switching over {first['network']}, {first['wavelengths']} wavelengths, {title}")
    panels = (
        ("mean_delay_slots", "mean delay of what is carried (slots)", 1.0, "log"),
        ("p99_delay_slots", "delay that 99 % of it keep to (slots)", 1.0, "log"),
        ("loss", "bursts lost (%)", 100.0, "linear"),
        ("waiting", "bursts waiting in all edge routers (mean)", 1.0, "log"),
    )
    for axes, (name, label, scale, kind) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for strategy in STRATEGIES:
            own = sorted(
                (r["load"], r[name] * scale) for r in rows if r["strategy"] == strategy and r[name] is not None
            )
            colour, marker, line = LOOKS[strategy]
            axes.plot(*zip(*own, strict=True), color=colour, marker=marker, linestyle=line, label=NAMES[strategy])
        axes.set_yscale(kind)
        if kind == "log":
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(ScalarFormatter())
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("offered load of the bottleneck fibre (1 = all its wavelengths)")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.axvspan(HIGH_LOAD, 1.0, color="#0072b2", alpha=0.05)
        if name == "loss":
            axes.axhline(0, color="#0072b2", linewidth=0.8)
            axes.axvline(LOSSLESS_UP_TO, color="#0072b2", linewidth=0.8, linestyle=":")
            axes.annotate(
                "liquid must lose none\nup to here",
                (LOSSLESS_UP_TO, 0),
                (-6, 40),
                textcoords="offset points",
                ha="right",
                fontsize=8,
            )
    figure.axes[0].legend(fontsize=8, loc="upper left")
    return figure


STUDY = Study.of_module(
    __name__,
    name="wavelength_bursts",
    does="optical burst switching over NSFNET: repeated liquid schedules against per-burst first fit, at several loads",
    answers="Gabrielyan 2007, subsection 3.2.2 and its further work: edge buffers emptied by repeated liquid schedules",
)
