"""``testbed compare``: stored runs of one workload on one page."""

import json

import pytest

import testbed
from testbed.cli import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    plans = [testbed.bulk_plan("ring:4"), testbed.bulk_plan("ring:5")]
    return [str(testbed.run(plan, "simulator", results=root).directory) for plan in plans]


def test_a_page_and_a_table_of_two_runs(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["compare", *runs, "--output", str(page)]) == 0
    assert "throughput" in capsys.readouterr().out and "Comparison of 2 runs: bulk" in page.read_text()
    assert main(["compare", *runs, "--output", str(page), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    figures = {one["figure"]: one["runs"] for one in document["figures"]}
    found = figures["verified"][1]
    assert (found["value"], found["predicted"], found["difference"], found["differs"]) == (20, 20, 8, None)


def test_what_cannot_be_compared_is_refused_and_nothing_is_written(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    for words in ([runs[0]], [runs[0], str(tmp_path)], [runs[0], str(tmp_path / "none")]):
        assert main(["compare", *words, "--output", str(page)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1 and not page.exists()
