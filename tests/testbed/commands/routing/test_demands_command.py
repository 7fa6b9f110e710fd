"""``testbed demands`` from outside: its figures, its JSON keys, its bad inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.routing.demands import checker, matrix


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    code = main(["demands", *words])
    out = capsys.readouterr()
    return code, json.loads(out.out) if out.out.startswith("{") else out.out, out.err


def test_all_usual_routings_are_rated_beside_the_proved_optimum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, document, _ = asked(
        capsys, "topohub:sndlib/abilene", "--matrix", "own", "--label-order", "random", "--json"
    )
    assert code == 0
    assert document["pairs"] == 132 and document["single_link_pairs"] == 22
    assert document["optimum"]["proved"]
    by_method = {one["method"]: one for one in document["methods"]}
    assert by_method["smore:4"]["over_optimum"] == pytest.approx(1, abs=1e-4)
    assert by_method["capillary"]["over_optimum"] == pytest.approx(1.2579, abs=1e-3)
    assert by_method["capillary"]["exposed_pairs"] == 0 and by_method["single"]["ror"] is None
    assert not any(one["violations"] for one in document["methods"])


def test_a_routing_that_the_checker_refuses_ends_with_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = checker.DemandCheck(utilisation=1, bound=0, unmet_bps=1, violations=("demand is lost",))
    monkeypatch.setattr(matrix, "check_demands", lambda *_, **__: wrong)
    code, text, _ = asked(capsys, "swiss-t1", "--routing", "single")
    assert code == 1
    assert "WRONG single: demand is lost" in text and "is not proved" in text


def test_a_file_of_demands_is_routed_and_every_link_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "two.csv").write_text("s1,s6,4e6\ns2,s6,1e6\n")
    words = (
        "swiss-t1",
        "--matrix",
        str(tmp_path / "two.csv"),
        "--routing",
        "single",
        "--show-links",
        "--json",
    )
    code, document, _ = asked(capsys, *words)
    assert code == 0
    (one,) = document["methods"]
    assert sum(link["load_bps"] for link in one["links"]) >= 5e6
    assert asked(capsys, *words[:-1], "--total-rate", "10Mbps")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("swiss-t1", "--matrix", "own"), "has no demands"),
        (("swiss-t1", "--matrix", "no-such-file"), "give uniform, gravity, own or a file"),
        (("swiss-t1", "--routing", "swift"), "least-ror:B"),
        (("ring:4", "--end-points", "hosts", "--static-tolerance", "1"), "tolerance"),
        (("topohub:sndlib/polska", "--end-points", "hosts"), "0 hosts"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    code, _, error = asked(capsys, *words)
    assert code == 2
    assert says in error and error.count("\n") == 1


def test_trees_over_links_of_one_way_say_what_else_to_ask_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]
    document = {"directed": True, "nodes": [{"id": name} for name in "abc"], "links": links}
    file = tmp_path / "chain.json"
    file.write_text(json.dumps(document))
    assert main(["demands", str(file), "--matrix", "uniform"]) == 2
    assert "do not; give other methods by --routing" in capsys.readouterr().err
    assert main(["demands", str(file), "--matrix", "uniform", "--routing", "capillary"]) == 0
