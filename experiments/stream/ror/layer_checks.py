"""Checks of how measured ROR falls from the first capillary layer to the full route.

The rival is that ROR does not fall.
"""

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
from testbed.report.drawing.charts import Figure, draw_bars

# Stands for all layers.
FULL = 0
LAYERS = (1, 2, 3, 5, 10, FULL)


def layer_name(layers: int) -> str:
    """Return the number of layers as text."""
    return "full" if layers == FULL else str(layers)


def _layer_order(layers: int) -> float:
    """Return a key that puts the full route after all layers."""
    return math.inf if layers == FULL else layers


def judge_layers(rows: Rows) -> Verdict:
    """Check the mean ROR of each layer, its fall, and the sender on every route.

    Routes that need more than 255 packets per block are left out, and named in a note.
    """
    carried_rows = carried(rows)
    checks: list[Check] = []
    for labels in LABELS:
        if where(carried_rows, labels=labels):
            means = layer_means(carried_rows, labels)
            checks += [*_mean_checks(labels, means), _fall_check(labels, means)]
    checks += sender_checks(
        carried_rows,
        where(carried_rows, layers=1),
        "no fall: what layer 1 calls for, at every layer",
    )
    return Verdict.of(checks, beyond_notes(rows))


def completely_measured_networks(rows: Rows, labels: str) -> list[dict[int, Row]]:
    """Return the rows by number of layers, for each network that was measured at every layer.

    Networks with an infinite ROR are left out.
    """
    layers = {row["layers"] for row in rows}
    networks = []
    for network_rows in grouped(where(rows, labels=labels), "network").values():
        by_layers = {row["layers"]: row for row in network_rows}
        infinite = any(row["forced"] for row in network_rows)
        if by_layers.keys() == layers and not infinite:
            networks.append(by_layers)
    return networks


def layer_means(rows: Rows, labels: str) -> dict[int, RouteRor]:
    """Return the mean ROR over networks by number of layers.

    The networks are those that were measured at every layer. The result is empty if there are none.
    """
    networks = completely_measured_networks(rows, labels)
    if not networks:
        return {}
    means = {}
    for layers in sorted({row["layers"] for row in rows}, key=_layer_order):
        means[layers] = mean_ror([by_layers[layers] for by_layers in networks])
    return means


def _mean_checks(labels: str, means: dict[int, RouteRor]) -> list[Check]:
    checks = []
    for layers, ror in means.items():
        layers_name = "all layers" if layers == FULL else f"layers up to {layers}"
        rival, rival_is = _rival_of_mean(labels, layers, means)
        checks.append(
            Claim(f"{labels} labels: mean ROR, {layers_name}")
            .equal(ror.predicted, (ror.measured, ror.uncertainty), allowed(labels, ror.predicted))
            .against(rival, rival_is)
        )
    return checks


def _rival_of_mean(labels: str, layers: int, means: dict[int, RouteRor]) -> tuple[float, str]:
    """Return the rival of a mean, and its description.

    The rival is the ROR of layer 1: no fall. For layer 1 itself, and if theory predicts no fall
    either, it is 0: a sender that never raises N.
    """
    ror = means[layers]
    first = means.get(1)
    if layers == 1 or first is None:
        return 0.0, "a sender that never raises N"
    predicted_fall = abs(first.predicted - ror.predicted)
    if predicted_fall <= allowed(labels, ror.predicted):
        return 0.0, "a sender that never raises N"
    return first.predicted, "no fall from layer 1"


def _fall_check(labels: str, means: dict[int, RouteRor]) -> Check:
    name = f"{labels} labels: fall of mean ROR from layer 1 to the full route"
    if 1 not in means or FULL not in means:
        return Check.unmeasured(
            name, "no network was measured at every layer", rival_note="no fall"
        )
    first = means[1]
    full = means[FULL]
    predicted = first.predicted - full.predicted
    return (
        Claim(name)
        .equal(predicted, first.measured - full.measured, allowed(labels, predicted))
        .plus_minus(math.hypot(first.uncertainty, full.uncertainty))
        .against(0.0, "no fall")
        .noting(f"{first.measured:.2f} to {full.measured:.2f} measured")
    )


def layer_figures(rows: Rows) -> Results:
    """Draw the mean ROR by layer for each order of labels."""
    drawings = {}
    for labels in LABELS:
        means = layer_means(rows, labels)
        if means:
            networks = len(completely_measured_networks(rows, labels))
            title = f"{labels} labels, {networks} networks: mean ROR by capillary layers"
            drawings[f"mean_ror_by_layer_{labels}"] = _draw_means(title, labels, means)
    return drawings


def _draw_means(title: str, labels: str, means: dict[int, RouteRor]) -> Figure:
    samples = {}
    for layers, ror in means.items():
        predicted = (ror.predicted, allowed(labels, ror.predicted))
        samples["predicted (equation 23), tolerance", layer_name(layers)] = predicted
    for layers, ror in means.items():
        measured = (ror.measured, ror.uncertainty)
        samples["measured, 95 % interval", layer_name(layers)] = measured
    first = next(iter(means.values()))
    no_fall = (first.predicted, "rival: no fall")
    return draw_bars(title, samples, y="mean ROR", claim=no_fall)
