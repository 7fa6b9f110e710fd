"""``testbed ror`` from outside: its figures, its JSON keys, its bad inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.routing.methods import route_by_name
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.route_ror import pair_ror, route_ror
from topologies import load_network

SWISS = ["ror", "swiss-t1", "--from", "s1", "--to", "s6"]


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    code = main([*words])
    out = capsys.readouterr()
    return code, json.loads(out.out) if out.out.startswith("{") else out.out, out.err


def test_every_link_has_its_block_size_and_the_sum_is_the_ror(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, document, _ = asked(
        capsys,
        *SWISS,
        "--label-order",
        "random",
        "--static-tolerance",
        "0.05",
        "--m",
        "20",
        "--der",
        "1e-5",
        "--json",
    )
    assert code == 0
    assert document["fec_tolerance"] == 28 and document["labels"] == "random"
    assert {entry["block_size"] for entry in document["per_link"] if entry["load"] == "1/4"} == {44}
    assert document["ror"] == pytest.approx(
        sum(entry["overhead"] for entry in document["per_link"])
    )
    assert document["infinite_links"] == []


@pytest.mark.parametrize("labels", [(), ("--label-order", "random")])
def test_ror_of_a_route_is_that_of_a_stream_over_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, labels: tuple[str, ...]
) -> None:
    _, rated, _ = asked(capsys, *SWISS, *labels, "--json")
    words = [
        "stream",
        *SWISS[1:],
        *(word.replace("--label-order", "--label-order") for word in labels),
        "--fabric",
        "simulator",
        "--max-faults",
        "1",
        "--results",
        str(tmp_path),
        "--json",
    ]
    _, streamed, _ = asked(capsys, *words)
    assert streamed["ror"]["whole_route_predicted"] == pytest.approx(rated["ror"])
    assert streamed["ror"]["eq23"] == pytest.approx(rated["ror_eq23"]) and rated[
        "ror_eq23"
    ] == pytest.approx(4.9643, abs=1e-4)
    order = rated["ror_label_order"]
    assert streamed["ror"]["label_order"] == (None if order is None else pytest.approx(order))
    assert order == (None if rated["labels"] == "random" else pytest.approx(1.5909, abs=1e-4))
    names = ("labels", "source_packets", "decoding_error_rate", "static_tolerance")
    stated = {name: rated[name] for name in names}
    assert {name: streamed["ror"][name] for name in stated} == stated


def test_labels_m_tolerance_and_der_stand_beside_every_ror(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = "stratified labels, M 20, tolerance 5 %, DER 1e-05"
    _, text, _ = asked(capsys, *SWISS)
    assert words in text
    run = ["--fabric", "simulator", "--max-faults", "1", "--results", str(tmp_path)]
    code, text, _ = asked(capsys, "stream", *SWISS[1:], *run)
    assert code == 0 and words in " ".join(text.split())
    (page,) = tmp_path.glob("stream/*/page.html")
    assert words in page.read_text()
    _, text, _ = asked(capsys, "demands", "ring:4", "--routing", "single")
    assert words in text
    _, text, _ = asked(
        capsys, "demands", "ring:4", "--routing", "single", "--label-order", "random"
    )
    assert words.replace("stratified", "random") in text


def test_layers_of_a_route_are_rated_as_those_of_a_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, one, _ = asked(capsys, *SWISS, "--layers", "1", "--json")
    _, named, _ = asked(capsys, *SWISS, "--routing", "capillary:1", "--json")
    _, full, _ = asked(capsys, *SWISS, "--json")
    assert one["ror"] == named["ror"] > full["ror"]


def test_a_single_path_is_infinite_and_names_its_links(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = asked(capsys, *SWISS, "--routing", "single", "--json")
    assert (code, document["ror"]) == (0, None)
    assert document["infinite_links"] == [
        f"{e['source']}->{e['target']}" for e in document["per_link"]
    ]
    _, said, _ = asked(capsys, *SWISS, "--routing", "single")
    assert (
        "ROR infinite: s1->s6 carries the whole flow, so no code survives the failure; of the other links 0"
        in said
    )
    assert (document["ror_eq23"], document["ror_label_order"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("words", "headline"),
    [
        ((), "capillary: ROR 1.591 (stratified labels); 4.964 with random labels (equation 23)"),
        (("--label-order", "random"), "capillary: ROR 4.964 (random labels)"),
        (("--large-blocks",), "capillary: ROR 2.194 (large blocks, equation 29)"),
    ],
)
def test_ror_of_the_labels_in_use_comes_first(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], headline: str
) -> None:
    _, text, _ = asked(capsys, *SWISS, *words)
    lines = text.splitlines()
    assert lines[0] == headline and len(lines) < 8
    _, document, _ = asked(capsys, *SWISS, *words, "--json")
    assert f"ROR {document['ror']:.4g} " in headline


@pytest.mark.parametrize("words", [(), ("--label-order", "random"), ("--large-blocks",)])
def test_overheads_of_all_links_add_up_to_the_headline(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    _, text, _ = asked(capsys, "ror", "optical-cloud", "--from", "x1", "--to", "x11", *words)
    headline, _, *rows = text.splitlines()
    shown = float(headline.split("ROR ")[1].split()[0])
    sums = [float(row.split()[-1]) for row in rows if row[0].isdigit()]
    assert sum(sums) == pytest.approx(shown, rel=1e-3) and sums


def test_loads_are_those_of_the_route(capsys: pytest.CaptureFixture[str]) -> None:
    """Switches know a load to 1/65536 only; what is printed is the route's."""
    _, rated, _ = asked(capsys, *SWISS, "--json")
    _, routed, _ = asked(capsys, "route", *SWISS[1:], "--json")
    loads = [(link["load"], link["load_float"]) for link in routed["links"]]
    assert [(link["load"], link["load_float"]) for link in rated["per_link"]] == loads
    _, text, _ = asked(capsys, *SWISS, "--show-links")
    assert "s2->s3  0.08333 " in text and "0.08334" not in text


def test_methods_are_ranked_by_the_labels_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = asked(capsys, *SWISS, "--routing", "single", "--routing", "capillary")
    assert text.startswith("least redundancy: capillary, ROR 1.591 (stratified labels)\n")
    assert "s2->s3" not in text and "--show-links lists every link" in text


def test_large_blocks_follow_equation_29(capsys: pytest.CaptureFixture[str]) -> None:
    _, document, _ = asked(capsys, *SWISS, "--large-blocks", "--static-tolerance", "0.05", "--json")
    assert document["ror"] == pytest.approx(
        sum(0.95 / (1 - e["load_float"]) - 1 for e in document["per_link"])
    )
    assert document["fec_tolerance"] == pytest.approx(20 / 0.95)


def test_several_methods_come_in_one_object_in_the_order_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, document, _ = asked(
        capsys,
        *SWISS,
        "--routing",
        "least-fec",
        "--routing",
        "capillary",
        "--routing",
        "min-cost",
        "--json",
    )
    assert [entry["method"] for entry in document["methods"]] == [
        "least-fec",
        "capillary",
        "min-cost",
    ]


def test_stratified_labels_need_no_more_than_random_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, stratified, _ = asked(capsys, *SWISS, "--label-order", "stratified", "--json")
    _, random_labels, _ = asked(capsys, *SWISS, "--label-order", "random", "--json")
    for a, b in zip(stratified["per_link"], random_labels["per_link"], strict=True):
        assert a["block_size"] < b["block_size"]


def test_blocks_too_long_for_reed_solomon_are_told_or_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, document, err = asked(capsys, *SWISS, "--m", "200", "--json")
    assert code == 0
    assert "RaptorQ" in document["note"] and "RaptorQ" in err
    code, _, err = asked(capsys, *SWISS, "--m", "200", "--code", "reed-solomon")
    assert code == 2
    assert "255" in err and "RaptorQ" in err
    _, document, _ = asked(capsys, *SWISS, "--m", "200", "--code", "raptorq", "--json")
    assert document["note"] is None


def test_failed_links_and_overlaps_are_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--down",
        "s1->s2",
        "--down",
        "s5->s6",
        "--failure-duration",
        "2",
        "--failure-interval",
        "3600",
        "--json",
    ]
    _, document, _ = asked(capsys, *SWISS, *words)
    assert 0.25 <= document["failure"]["loss"] <= 0.5
    assert document["overlap"]["k1"] == pytest.approx(document["overlap"]["k1_of_two"], abs=1e-3)
    assert document["overlap"]["ror"] > document["ror"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--static-tolerance", "1"], "below 1"),
        (["--static-tolerance", "-0.1"], "below 1"),
        (["--static-tolerance", "nan"], "below 1"),
        (["--m", "0"], "1 to 56403"),
        (["--der", "0"], "more than 0 and below 1"),
        (["--der", "1"], "more than 0 and below 1"),
        (["--routing", "fastest"], "is not known"),
        (["--routing", "least-fec:2"], "below 1"),
        (["--down", "s1->s99"], "is no link of"),
        (["--failure-duration", "2"], "together"),
        (["--large-blocks", "--label-order", "stratified"], "stratified"),
    ],
)
def test_bad_values_are_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    code, _, err = asked(capsys, *SWISS, *words)
    assert code == 2
    assert says in err and err.count("\n") == 1


def test_a_sink_out_of_reach_and_a_source_that_is_the_sink_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    apart = tmp_path / "apart.json"
    nodes = [{"id": n, "kind": "switch"} for n in "abc"]
    apart.write_text(
        json.dumps({"directed": True, "nodes": nodes, "links": [{"source": "a", "target": "b"}]})
    )
    assert asked(capsys, "ror", str(apart), "--from", "a", "--to", "c")[0] == 2
    assert asked(capsys, "ror", str(apart), "--from", "a", "--to", "a")[0] == 2


def test_parallel_links_of_a_file_stay_separate_links(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "parallel.json"
    links = [{"source": "a", "target": "b", "key": k} for k in range(2)]
    nodes = [{"id": n, "kind": "switch"} for n in "ab"]
    file.write_text(
        json.dumps({"directed": True, "multigraph": True, "nodes": nodes, "links": links})
    )
    _, document, _ = asked(capsys, "ror", str(file), "--from", "a", "--to", "b", "--json")
    assert [(entry["key"], entry["load"]) for entry in document["per_link"]] == [
        (0, "1/2"),
        (1, "1/2"),
    ]


def test_a_row_is_json_ready_and_agrees_with_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    route = route_by_name(load_network("swiss-t1"), "s1", "s6", "capillary")
    row = route_ror(route, Coding(tolerance=0.05, labels="stratified"))
    _, document, _ = asked(capsys, *SWISS, "--json")
    assert json.loads(json.dumps(row))["ror"] == document["ror"]
    assert row["infinite_links"] == [] and row["counted_links"] == len(document["per_link"])


def test_the_printed_pair_sum_drops_pairs_with_a_light_link() -> None:
    route = route_by_name(load_network("swiss-t1"), "s1", "s6", "capillary")
    pairs = pair_ror(route, Coding(tolerance=0.1))
    assert pairs.printed < pairs.all_pairs


def test_link_may_be_named_without_the_sign_that_a_shell_redirects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, quoted, _ = asked(capsys, *SWISS, "--down", "s1->s2", "--json")
    _, plain, _ = asked(capsys, *SWISS, "--down", "s1-s2", "--json")
    assert plain == quoted and plain["failure"]["links"] == ["s1->s2"]
    code, _, error = asked(capsys, *SWISS, "--down", "s1-s9")
    assert code == 2 and error.startswith("testbed: --down: link 's1-s9'")
