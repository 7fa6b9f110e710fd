"""The study of ROR by layer: a real row passes, and a sender that gives the saving of many paths away fails."""

from __future__ import annotations

from experiments.stream import ror_by_layer


def rows(fall: float = 1.0) -> list[dict[str, object]]:
    """A network of ROR 6 at layer 1 and 4 with all layers; ``fall``: how much of that is measured."""
    found: list[dict[str, object]] = []
    for labels in ror_by_layer.LABELS:
        for layers, predicted in ((1, 6.0), (3, 5.0), (ror_by_layer.FULL, 4.0)):
            measured = 6.0 - fall * (6.0 - predicted)
            figures = {"tolerance": 0.12 if labels == "stratified" else 0.3, "error": 0.0, "links": 20, "infinite": 0}
            figures |= {"undecodable": 0, "heavy": 20, "right": 20, "wrong": 0}
            point = {"network": "a", "layers": layers, "labels": labels}
            found.append({**point, "predicted": predicted, "measured": measured, **figures})
    return found


def failed(of: list[dict[str, object]]) -> list[str]:
    return [check.name for check in ror_by_layer.judge(of).checks if not check.passed]


def test_a_route_is_measured_as_predicted_in_virtual_time() -> None:
    point = {"network": "ring:4", "source": "s0", "sink": "s2", "layers": 1, "labels": "stratified", "seed": 1}
    row = ror_by_layer.measure(point)
    assert row["links"] == 4 and row["right"] == row["heavy"] == 4 and row["wrong"] == row["undecodable"] == 0
    assert abs(row["measured"] - row["predicted"]) < 0.01 and row["predicted"] > 3


def test_what_theory_says_passes_and_no_fall_fails() -> None:
    assert failed(rows()) == []
    assert any("fall of mean ROR" in name for name in failed(rows(fall=0.0)))
    assert any("the rival's" in name for name in failed(rows(fall=0.0)))
    assert any("in tolerances, worst" in name for name in failed(rows(fall=0.7)))


def test_a_wrong_accusation_and_a_block_lost_after_the_answer_fail() -> None:
    accused, lost, unnamed = rows(), rows(), rows()
    accused[0]["wrong"], lost[0]["undecodable"], unnamed[0]["right"] = 1, 1, 18
    assert [len(failed(of)) for of in (accused, lost, unnamed)] == [1, 1, 1]


def test_networks_with_links_that_carry_everything_are_not_compared_by_layer() -> None:
    infinite = [{**row, "infinite": int(row["layers"] == 1)} for row in rows()]
    assert ror_by_layer.layer_means(infinite) == {}
    assert failed(infinite)


def test_figures_are_drawn() -> None:
    assert list(ror_by_layer.figures(rows())) == ["ror_by_layer"]
