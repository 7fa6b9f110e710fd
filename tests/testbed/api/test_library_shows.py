"""What a notebook or a prompt sees of the library's values: one line, a drawing and a table; runs are kept, drawn and
compared."""

import json
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import testbed
from testbed.errors import InputError, UsageError
from testbed.faults.fault import Fault
from testbed.report.drawing.charts import HUES
from testbed.report.drawing.network_drawing import Load
from testbed.report.drawing.svg_figures import following_dark_mode
from topologies import TopologyError


@pytest.fixture(scope="module")
def ended():
    plan = testbed.stream_plan(
        "ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200
    )
    return testbed.run(plan, "simulator")


@pytest.fixture(scope="module")
def values(ended):
    network = testbed.network("swiss-t1")
    return [network, testbed.route(network, "s1", "s6"), testbed.schedule("crossbar:4"), ended.plan, ended,
            testbed.bulk_plan("ring:4"), testbed.simulation_plan("torus:4x4"), testbed.draw("ring:4")]  # fmt: skip


def test_every_value_says_itself_in_one_line(values):
    for value in values:
        assert "\n" not in repr(value) and len(repr(value)) <= 160, value
    assert repr(values[0]) == "Network('swiss-t1': 8 switches, 64 hosts, 160 links)"
    assert repr(values[4]) == "RunResult(stream, simulator: passed, 12 of 12 checks)"


def test_a_notebook_gets_a_drawing_and_a_table_of_it(values):
    for value in values:
        shown = value._repr_html_()
        assert "<table" in shown or "<img" in shown, value
        assert "<img" in shown or not hasattr(value, "network"), value
    assert "s1-&gt;s2" in values[1]._repr_html_()


def test_a_table_of_many_rows_is_cut_and_says_so(values):
    shown = values[0]._repr_html_()
    assert shown.count("<tr") < 60 and "more rows" in shown


def test_names_of_others_are_text_in_a_notebook():
    nodes = [{"id": "<script>"}, {"id": "b"}]
    network = testbed.network({"nodes": nodes, "edges": [{"source": "<script>", "target": "b"}]})
    assert "<script" not in network._repr_html_()


def test_a_drawing_tells_loads_faults_and_ends(tmp_path):
    network = testbed.network("swiss-t1")
    route = testbed.route(network, "s1", "s6")
    drawing = testbed.draw(route, faults=["s1->s2", Fault(link=("s7", "s6", 0)), ("s5", "s6", 0)])
    assert len(drawing.marks.loads) == len(route.loaded) and drawing.marks.ends == ("s1", "s6")
    assert drawing.marks.loads[("s1", "s2", 0)] == Load(share=1.0, words="1/4")
    assert set(drawing.marks.failed) == {("s1", "s2", 0), ("s7", "s6", 0), ("s5", "s6", 0)}
    assert ">1/12<" in drawing.svg and drawing.svg != testbed.draw(network).svg
    assert drawing.save(tmp_path / "a.svg").read_text() == drawing.svg
    with pytest.raises(InputError, match="names no picture"):
        drawing.save(tmp_path / "a.gif")
    shares = testbed.draw("ring:4", loads={"s0->s1": 30, "s1->s0": 60, "s1->s2": 0}).marks.loads
    assert shares == {
        ("s0", "s1", 0): Load(share=0.5, words="30"),
        ("s1", "s0", 0): Load(share=1.0, words="60"),
    }


WRONG = [
    {"loads": {"s0->s9": 1}},
    {"loads": {"s0->s1": -1}},
    {"loads": {"s0->s1": float("nan")}},
    {"faults": ["s0->s9"]},
    {"faults": [("s0", "s9", 0)]},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_drawing_of_links_that_are_not_there_is_refused(wrong):
    with pytest.raises(InputError):
        testbed.draw("ring:4", **wrong)


def test_a_route_of_another_network_is_not_drawn():
    with pytest.raises(InputError, match="the route is of 'ring:5'"):
        testbed.draw("ring:4", route=testbed.route("ring:5", "s0", "s2"))


def test_a_network_without_cables_has_neither_direction():
    network = testbed.network("ring:4")
    left = network.without("s0->s1", ("s2", "s3", 0))
    assert {link.label for link in network.links} - {link.label for link in left.links} >= {
        "s0->s1", "s1->s0", "s2->s3", "s3->s2"
    }  # fmt: skip
    assert len(left.links) == len(network.links) - 4
    with pytest.raises(TopologyError, match="no link 's0->s9'"):
        network.without("s0->s9")


def test_a_run_is_kept_once_and_has_a_page(ended, tmp_path):
    with pytest.raises(UsageError, match="save"):
        _ = ended.page
    directory = ended.save(tmp_path)
    assert ended.page == directory / "page.html" and "ring:4" in ended.page.read_text()
    assert (directory / "verdict.json").is_file() and directory.parent == tmp_path / "stream"
    other = testbed.run(testbed.bulk_plan("ring:4"), "simulator", results=tmp_path)
    assert other.page.is_file() and other.directory.parent == tmp_path / "bulk"


def test_runs_are_compared_with_what_they_differ_in(ended, tmp_path):
    faster = testbed.run(
        testbed.stream_plan(
            "ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=400
        ),
        "simulator",
    )
    found = testbed.compare({"slow": ended, "fast": faster})
    assert found.differing == {"rate_pps": ("200", "400")}
    names = {name: words for name, *words in found.cells()}
    assert names["loss, s0->s1 down"] == ["0.5", "0.5"]
    page = found.save(tmp_path / "c.html").read_text()
    assert "slow" in page and "data:image/svg" in page and "<table" in found._repr_html_()


def test_a_run_may_come_from_another_process(ended):
    other = pickle.loads(pickle.dumps(ended))
    assert other.passed == ended.passed and other.plan == ended.plan
    cells = testbed.compare([ended, other]).cells()
    assert cells and all(first == second for _, first, second in cells)


def test_runs_of_two_workloads_or_one_run_are_not_compared(ended):
    with pytest.raises(InputError, match="two runs or more"):
        testbed.compare([ended])
    with pytest.raises(InputError, match="runs of stream, bulk"):
        testbed.compare([ended, testbed.run(testbed.bulk_plan("ring:4"), "simulator")])
    with pytest.raises(UsageError):
        testbed.compare([ended, "stream"])


def test_each_colour_of_a_chart_has_one_on_dark():
    drawn = "".join(f'<path style="stroke: {hue.upper()}"/>' for hue in (*HUES, "#123456"))
    followed = following_dark_mode(f'<svg width="1">{drawn}</svg>')
    assert followed.count('style="stroke: var(--c-') == len(HUES) and "#123456" in followed.lower()
    light, dark = re.findall(r"svg\{([^}]*)\}", followed)
    assert all(f"--c-{hue[1:]}:" in light and f"--c-{hue[1:]}:{hue}" not in dark for hue in HUES)


def test_a_file_of_ones_own_gives_a_routing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(
        "from testbed.routing.methods import route_by_name\n"
        "def two(network, source, sink):\n    return route_by_name(network, source, sink, 'disjoint:2')\n"
        "def broken(network, source, sink):\n    return 1 / 0\n"
        "number = 3\n"
    )
    Path("bad.py").write_text("raise SystemExit('no')\n")
    mine, disjoint = (
        testbed.route("swiss-t1", "s1", "s6", method) for method in ("./my.py:two", "disjoint:2")
    )
    assert mine.loads == disjoint.loads
    for method, words in (
        ("my.py:broken", "ZeroDivisionError"),
        ("my.py:none", "has no none"),
        ("my.py:number", "no function"),
        ("none.py:two", "No such file"),
        ("bad.py:two", "does not load"),
    ):
        with pytest.raises(ValueError, match=words):
            testbed.route("ring:4", "s0", "s2", method)


def test_a_run_that_is_kept_says_how_long_it_took_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testbed.api.runs import keeping
    from testbed.bulk.workload import BULK
    from testbed.model.run_records import Manifest
    from testbed.model.verdict import Verdict
    from testbed.model.workload import Judgement

    clock = iter((100.0, 160.0))
    monkeypatch.setattr("testbed.api.runs.time", SimpleNamespace(monotonic=lambda: next(clock)))
    plan = testbed.bulk_plan("ring:4")
    with keeping(BULK, "bulk", tmp_path, lambda: Manifest(command="testbed bulk"), plan) as keep:
        folder = keep(Judgement(verdict=Verdict(checks=()), document={}))
    assert folder is not None
    assert json.loads((folder / "manifest.json").read_text())["seconds"] >= 60
