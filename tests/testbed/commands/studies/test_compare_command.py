"""``testbed compare``: stored runs of one workload on one page."""

import csv
import io
import json
import math
import os
import stat
from dataclasses import replace

import pytest

import testbed
from testbed.cli import main
from testbed.errors import InputError
from testbed.report.comparison import ComparedRun, Comparison, Figure
from testbed.results.run_folder import write_below


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    plans = [testbed.bulk_plan("ring:4"), testbed.bulk_plan("ring:5")]
    return [str(testbed.run(plan, "simulator", results=root).directory) for plan in plans]


def test_a_page_and_a_table_of_two_runs(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["compare", *runs, "--output", str(page)]) == 0
    assert (
        "throughput" in capsys.readouterr().out and "Comparison of 2 runs: bulk" in page.read_text()
    )
    assert main(["compare", *runs, "--output", str(page), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    figures = {one["figure"]: one["runs"] for one in document["figures"]}
    found = figures["verified"][1]
    assert (found["value"], found["predicted"], found["difference"], found["differs"]) == (
        20,
        20,
        8,
        None,
    )


def test_incomparable_runs_are_refused_and_nothing_is_written(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    for words in ([runs[0]], [runs[0], str(tmp_path)], [runs[0], str(tmp_path / "none")]):
        assert main(["compare", *words, "--output", str(page)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1 and not page.exists()


def test_the_page_goes_where_its_name_leads_and_replaces_no_device(runs, tmp_path):
    link, page = tmp_path / "link.html", tmp_path / "page.html"
    link.symlink_to(page)
    assert main(["compare", *runs, "--output", str(link)]) == 0
    assert link.is_symlink() and "Comparison of 2 runs" in page.read_text()
    below = tmp_path / "made" / "page.html"
    assert (
        main(["compare", *runs, "--output", str(below)]) == 0
        and below.read_text() == page.read_text()
    )
    device = tmp_path / "device"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    main(["compare", *runs, "--output", str(device)])
    with pytest.raises(InputError, match="it is a device"):
        write_below(tmp_path, device.name, b"x")
    assert device.is_char_device()


@pytest.fixture(scope="module")
def routings(tmp_path_factory):
    """Two stored streams whose routings load different links; the first routing is the default."""
    root = tmp_path_factory.mktemp("routings")
    stream = "stream swiss-t1 --from s1 --to s6 --fabric simulator --packet-rate 500 --faults"
    faults = "s1->s2@2-3,s1->s6@5-6"
    directories = []
    for words in ("", " --routing single"):
        single = "s1->s6@2-3"
        command = [*stream.split(), single if words else faults, *words.split()]
        before = set(root.glob("*/*"))
        assert main([*command, "--results", str(root), "--json"]) in {0, 1}
        (directory,) = set(root.glob("*/*")) - before
        manifest = directory / "manifest.json"
        document = json.loads(manifest.read_text())
        options = f"--routing {words.split()[-1]} " if words else ""
        document["command"] = f"testbed {stream} each-link {options}--results {root}"
        manifest.write_text(json.dumps(document))
        (directory / "SHA256SUMS").unlink()
        directories.append(str(directory))
    return directories


def test_rows_name_the_same_fault_in_each_run(routings, tmp_path, capsys):
    """The first fault of one run is another link than the first fault of the other."""
    page = str(tmp_path / "page.html")
    assert main(["compare", *routings, "--output", page, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    figures = {figure["figure"]: figure["runs"] for figure in document["figures"]}
    only_first, both = figures["loss, s1->s2 down"], figures["loss, s1->s6 down"]
    assert only_first[1] is None and only_first[0]["value"] == pytest.approx(0.25, abs=0.01)
    assert both[0]["value"] == pytest.approx(0.25, abs=0.01) and both[1]["value"] == 1.0
    assert not any("fault:" in name for name in figures)


def test_columns_are_named_by_the_option_that_differs(routings, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    page = tmp_path / "page.html"
    assert main(["compare", *routings, "--output", str(page)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 runs of stream; they differ in --routing"
    assert [line.split()[0] for line in lines[2:4]] == ["capillary", "single"]
    assert lines[5].split() == ["capillary", "single"]
    assert any(line.startswith("0 in every run: ") for line in lines)
    assert all(len(line) <= 80 for line in lines if not line.startswith(("0 in", "page: ")))
    html = page.read_text()
    assert ">capillary<" in html and "testbed report" not in html and "testbed compare" in html
    assert "0 in every run" in html


def test_csv_has_one_number_in_each_cell(routings, tmp_path, capsys):
    page = str(tmp_path / "page.html")
    assert main(["compare", *routings, "--output", page, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {"figure", "capillary", "single", "single - capillary"} <= rows[0].keys()
    for row in rows:
        del row["figure"]
        assert all(value == "" or math.isfinite(float(value)) for value in row.values())


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ([("--routing ecmp",), ("--routing ./mine.py:inverse",)], ("ecmp", "inverse")),
        ([("--routing ecmp",), ()], ("ecmp", "capillary")),
        ([("--seed 1",), ("--seed 2",)], ("seed 1", "seed 2")),
        ([("stream", "ring:4"), ("stream", "ring:5")], ("ring:4", "ring:5")),
        ([("stream", "a/one.json"), ("stream", "b/two.json")], ("one.json", "two.json")),
        ([("--results a",), ("--results b",)], ("run 1", "run 2")),
        ([("--no-comparison",), ()], ("no-comparison", "default no-comparison")),
        ([("--routing=ecmp",), ("--routing single",)], ("ecmp", "single")),
        ([("rate_pps 200",), ("rate_pps 400",)], ("rate_pps 200", "rate_pps 400")),
        ([("--faults " + "x" * 40,), ()], ("run 1", "default faults")),
    ],
)
def test_labels_of_runs(options, labels):
    figures = {"ror": Figure(value=1.0)}
    runs = [
        ComparedRun(
            label=f"2026112{number}T191245Z-seed1",
            workload="stream",
            figures=figures,
            options=each,
            defaults={"--routing": "capillary"},
        )
        for number, each in enumerate(options)
    ]
    assert Comparison(runs=tuple(runs)).labels == labels
    named = tuple(replace(run, label=name) for run, name in zip(runs, "ab", strict=True))
    assert Comparison(runs=named).labels == ("a", "b")


def test_labels_of_repeated_runs_are_distinct():
    run = ComparedRun(label="run 1", workload="stream", figures={}, options=("--routing ecmp",))
    other = replace(run, options=("--routing single",))
    labels = Comparison(runs=(run, run, other)).labels
    assert labels == ("ecmp, run 1", "ecmp, run 2", "single")
