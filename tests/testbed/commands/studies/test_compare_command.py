"""``testbed compare``: stored runs of one workload on one page."""

import json
import os
import stat

import pytest

import testbed
from testbed.cli import main
from testbed.errors import InputError
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


def test_what_cannot_be_compared_is_refused_and_nothing_is_written(runs, tmp_path, capsys):
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
