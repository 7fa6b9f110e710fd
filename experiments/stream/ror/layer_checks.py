"""Does measured ROR fall from the first capillary layer to the full route, by as much as predicted? The rival is that
it does not."""

import math

from experiments.stream.ror.measured_routes import (
    LABELS,
    RouteRor,
    allowed,
    beyond_notes,
    carried,
    mean_ror,
)
from experiments.stream.ror.sender_checks import sender_checks
from testbed.model.studies import Check, Claim, Results, Row, Rows, Verdict, grouped, where
from testbed.report.drawing.charts import draw_bars

FULL = 0
"""Stands for all layers."""
LAYERS = (1, 2, 3, 5, 10, FULL)


def layer_name(layers: int) -> str:
    return "full" if layers == FULL else str(layers)


def judge_layers(rows: Rows) -> Verdict:
    """Means layer by layer, the fall, and what is asked of the sender on every route that the code can carry."""
    left_out, rows = beyond_notes(rows), carried(rows)
    checks: list[Check] = []
    for labels in (labels for labels in LABELS if where(rows, labels=labels)):
        means = layer_means(rows, labels)
        checks += [*_mean_checks(labels, means), _fall_check(labels, means)]
    checks += sender_checks(
        rows, where(rows, layers=1), "no fall: what layer 1 calls for, at every layer"
    )
    return Verdict.of(checks, left_out)


def whole_networks(rows: Rows, labels: str) -> list[dict[int, Row]]:
    """For each network that has been measured at every layer, and whose ROR is finite there: layers -> row."""
    layers, by_network = (
        {row["layers"] for row in rows},
        grouped(where(rows, labels=labels), "network").values(),
    )
    found = [
        {row["layers"]: row for row in own}
        for own in by_network
        if not any(row["forced"] for row in own)
    ]
    return [one for one in found if one.keys() == layers]


def layer_means(rows: Rows, labels: str) -> dict[int, RouteRor]:
    """Layers -> mean over the networks measured at all of them; empty where there are none."""
    whole = whole_networks(rows, labels)
    layers = sorted({row["layers"] for row in rows}, key=lambda k: (k == FULL, k))
    return {k: mean_ror([found[k] for found in whole]) for k in layers} if whole else {}


def _mean_checks(labels: str, means: dict[int, RouteRor]) -> list[Check]:
    return [
        Claim(f"{labels} labels: mean ROR, {'all layers' if k == FULL else f'layers up to {k}'}")
        .equal(one.predicted, (one.measured, one.uncertainty), allowed(labels, one.predicted))
        .against(*_rival_of_mean(labels, k, means))
        for k, one in means.items()
    ]


def _rival_of_mean(labels: str, layers: int, means: dict[int, RouteRor]) -> tuple[float, str]:
    """No fall; for the first layer, which falls from nothing, and where theory foretells no fall either, nothing sent
    at all."""
    one, first = means[layers], means.get(1)
    if (
        layers == 1
        or first is None
        or abs(first.predicted - one.predicted) <= allowed(labels, one.predicted)
    ):
        return 0.0, "a sender that never raises N"
    return first.predicted, "no fall from layer 1"


def _fall_check(labels: str, means: dict[int, RouteRor]) -> Check:
    name = f"{labels} labels: fall of mean ROR from layer 1 to the full route"
    if 1 not in means or FULL not in means:
        return Check.unmeasured(
            name, "no network was measured at every layer", rival_note="no fall"
        )
    first, last = means[1], means[FULL]
    predicted = first.predicted - last.predicted
    return (
        Claim(name)
        .equal(predicted, first.measured - last.measured, allowed(labels, predicted))
        .plus_minus(math.hypot(first.uncertainty, last.uncertainty))
        .against(0.0, "no fall")
        .noting(f"{first.measured:.2f} to {last.measured:.2f} measured")
    )


def layer_figures(rows: Rows) -> Results:
    """``mean_ror_by_layer``, for each order of labels."""
    drawn = {}
    for labels in (labels for labels in LABELS if layer_means(rows, labels)):
        means = layer_means(rows, labels)
        predicted = {
            layer_name(k): (one.predicted, allowed(labels, one.predicted))
            for k, one in means.items()
        }
        measured = {layer_name(k): (one.measured, one.uncertainty) for k, one in means.items()}
        words = {
            "predicted (equation 23), tolerance": predicted,
            "measured, 95 % interval": measured,
        }
        samples = {
            (name, layers): values for name, of in words.items() for layers, values in of.items()
        }
        title = f"{labels} labels, {len(whole_networks(rows, labels))} networks: mean ROR by capillary layers"
        no_fall = next(iter(predicted.values()))[0], "rival: no fall"
        drawn[f"mean_ror_by_layer_{labels}"] = draw_bars(
            title, samples, y="mean ROR", claim=no_fall
        )
    return drawn
