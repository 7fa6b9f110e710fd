"""Every input of the outside trials, and what the command line makes of it.

    python -m tests.setup.given_inputs          prints all: file | command | exit code | first line

``test_given_inputs.py`` holds each row.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.cli import main
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run

INPUTS = Path(__file__).parent / "inputs"
SHOWN: dict[str, tuple[int, int, int, str]] = {
    # what topology show counts of a file: switches, hosts, directed links; and part of its note, if there is one
    "asymmetric.json": (3, 0, 6, ""),
    "blank_line_before_declaration.graphml": (2, 0, 2, ""),
    "bom_crlf.json": (2, 0, 2, ""),
    "clab_frr_routers_of_kind_linux.clab.yml": (
        0,
        5,
        10,
        "which forward over shortest paths: 'r1', 'r2', 'r3'",
    ),
    "clab_host_and_mgmt_links.clab.yml": (1, 1, 2, "left out: links out of the network, at 'r'"),
    "clab_kinds_defaults_mtu.clab.yml": (1, 2, 4, "mtu (links)"),
    "clab_links_null.clab.yml": (0, 1, 0, ""),
    "clab_no_links_key.clab.yml": (0, 1, 0, ""),
    "clab_norway.clab.yml": (2, 0, 2, "of their kinds: srl ('no', 'se')"),
    "clab_numbers_octal.clab.yml": (2, 0, 2, "of their kinds: "),
    "d3_group_and_value.json": (2, 0, 2, "group (nodes); value (links)"),
    "d3_indices_networkx1.json": (2, 0, 2, "positions in the list of nodes"),
    "datapath_ids_with_colons.json": (4, 0, 8, ""),
    "disconnected.json": (2, 2, 4, "no path joins h1 and h2"),
    "dual_homed_host_between_two_parts.json": (
        2,
        3,
        8,
        "gw has several cables and does not forward",
    ),
    "edge_ids_parallel.graphml": (2, 0, 4, ""),
    "fast_then_slow.json": (2, 2, 6, ""),
    "float_ids.json": (2, 0, 2, "1.0 is '1'"),
    "grid_graph_tuple_ids.json": (2, 0, 2, "[0, 0] is '0_0'"),
    "gzipped.graphml.gz": (2, 0, 2, ""),
    "host_to_host_triangle_one_way.json": (3, 0, 3, ""),
    "host_with_two_cables.json": (2, 2, 10, ""),
    "hosts_named_from_h1_switches_out_of_order.json": (2, 2, 6, ""),
    "hosts_only_mesh.json": (0, 4, 12, ""),
    "json_called_graphml.graphml": (2, 0, 2, ""),
    "key_without_type.graphml": (2, 0, 2, ""),
    "latin1_declared.graphml": (2, 0, 2, ""),
    "latin1_declared_but_ascii.graphml": (2, 0, 2, ""),
    "latin1_declared_saved_as_utf8.graphml": (2, 0, 2, ""),
    "leading_blank_lines.graphml": (2, 0, 2, ""),
    "names_unicode_spaces_long.json": (4, 2, 12, ""),
    "names_with_arrow_comma_hash.json": (4, 0, 8, ""),
    "no_namespace.graphml": (2, 0, 2, ""),
    "one_bit_per_second.json": (2, 0, 2, "less than one packet"),
    "one_host_one_switch.json": (1, 1, 2, ""),
    "one_node.json": (1, 0, 0, ""),
    "parallel_cables.json": (2, 0, 6, ""),
    "repetita_blank_first_line.graph": (2, 0, 2, "weight (links)"),
    "repetita_crlf_bom.graph": (2, 0, 2, "weight (links)"),
    "repetita_self_loop.graph": (2, 0, 2, "left out: 1 link from a node to itself, at 'b'"),
    "same_name_two_types.graphml": (3, 0, 4, ""),
    "sndlib_native.xml": (2, 0, 2, "preinstalled_capacity (links)"),
    "sndlib_native_two_demands_of_a_pair.txt": (
        3,
        0,
        4,
        "no pre-installed capacity, therefore 10 Mbit/s",
    ),
    "switch_without_cable.json": (3, 2, 6, ""),
    "tenth_of_a_megabit.json": (3, 0, 6, ""),
    "terabit.json": (3, 0, 6, ""),
    "three_in_a_row.json": (3, 0, 4, ""),
    "two_hosts_one_cable.json": (0, 2, 2, ""),
    "utf16.json": (2, 0, 2, ""),
    "utf16_declared.graphml": (2, 0, 2, ""),
    "utf16_declared_resaved_as_utf8.graphml": (2, 0, 2, ""),
    "utf8_bom_crlf.graphml": (2, 0, 2, ""),
    "vector_float_position.graphml": (2, 0, 2, ""),
    "weighted_networkx.json": (2, 0, 2, "weight (links)"),
    "yates.dot": (1, 1, 2, "kept, but not read: src_port, dst_port, cost (links)"),
    "yed_with_url_attribute.graphml": (2, 0, 1, ""),
    "zoo.gml": (2, 0, 2, ""),
    "zoo_archive_style_graph_attributes.graphml": (2, 0, 2, "DateObtained (graph)"),
    "zoo_only_link_speed.graphml": (2, 0, 2, ""),
    "evil2.json": (11, 0, 24, ""),
    "evil_names.json": (11, 0, 22, ""),
}
REFUSED = {
    # part of the one line that says why
    "capacity_1e300.json": "must be at most 1e+15",
    "clab_duplicate_node_keys.clab.yml": "line 5: the key 'a' is there twice",
    "clab_same_interface_twice.clab.yml": "'a:e1-1' is used by topology.links[0] too",
    "duplicate_json_key.json": "the key 'nodes' is there twice",
    "empty_messages.json": "'nodes' is missing",
    "no_nodes.json": "it has no node",
    "repetita_same_label_twice.graph": "line 4: the label 'None' is that of line 3 too",
    "dup.json": "the key 'directed' is there twice",
    "laughs.clab.yml": "stands for more than",
    "laughs.graphml": "amplification",
    "nan.json": "not a number",
    "py.clab.yml": "name: give text",
    "quad.graphml": "amplification",
    "trace_outside_the_folder.json": "outside the folder",
    "trace_tty.json": "outside the folder",
    "trace_zero.json": "outside the folder",
    "xxe.graphml": "undefined entity",
}
README = "no file"
"""Stands for the file in rows of commands that need none."""
ABC = "abc.json"
ABC_TEXT = """{"nodes": [{"id": "A"}, {"id": "B"}, {"id": "C"}],
"links": [{"source": "A", "target": "B"}, {"source": "B", "target": "C"}]}"""
"""The network of the spreadsheets' demands, in the folder where commands run."""
STREAM = "stream ring:4 --from s0 --to s2 --fabric simulator --faults none"
PROMPT = "x nosuch\nnoecho\nsource /nofile\nh0 exit\nh0 hostname\n"
CUTS = "link s1 s2 down\nlinks\nlink s1 s2 up\nfault s1->s2 down\nlinks\n"
NAMES = "h1 hostname\nh2 hostname\nlink s1 s2 down\nh1 ping -c 1 -W 1 h2\nlink s1 s2 up\nh1 ping -c 1 -W 5 h2\n"


@dataclass(frozen=True)
class Row:
    """``command``: words of testbed, or ``python FILE``; FILE is the input's path. ``says``: what is in the output, in
    this order, white space apart. ``typed``: lines at the prompt. ``notes``: lines on stderr that are no complaint."""

    file: str
    command: str
    code: int
    says: tuple[str, ...]
    typed: str = ""
    notes: int = 0


@dataclass(frozen=True)
class Outcome:
    """``output``: what was printed on stdout. ``complaints``: the lines on stderr."""

    code: int
    output: str
    complaints: tuple[str, ...]

    @property
    def first_line(self) -> str:
        """Of the complaints, else of the output; of a traceback the last."""
        if self.complaints and self.complaints[0].startswith("Traceback"):
            return self.complaints[-1]
        return next(
            (line for line in (*self.complaints, *self.output.splitlines()) if line.strip()), ""
        )


QUICK: tuple[Row, ...] = (
    *(
        Row(
            file,
            "topology show FILE",
            0,
            (f"switches {s}", f"hosts {h}", f"links {n} directed"),
            notes=bool(note),
        )
        for file, (s, h, n, note) in SHOWN.items()
    ),
    *(Row(file, "topology show FILE", 2, (why,)) for file, why in REFUSED.items()),
    Row(
        "names_with_arrow_comma_hash.json",
        "route FILE --from 'a->b' --to 'e#1'",
        0,
        ("a->b -> e#1",),
    ),
    Row(
        "datapath_ids_with_colons.json",
        f"route FILE --from of:{1:016} --to of:{3:016}",
        0,
        (f"of:{1:016} -> of",),
    ),
    Row("capacity_1e300.json", "demands FILE", 2, ("must be at most 1e+15",)),
    Row(
        "excel_demands_bom_crlf.csv",
        f"demands {ABC} --matrix FILE --routing single",
        0,
        ("2 pairs, 1 Mbit/s",),
    ),
    Row(
        "excel_demands_semicolons.csv",
        f"demands {ABC} --matrix FILE --routing single",
        0,
        ("1 pair, 1e-05 Mbit/s",),
    ),
    Row(
        "repetita_two_demands_of_a_pair.demands",
        "demands ring:3 --matrix FILE --routing single",
        0,
        ("2 pairs, 0.022 Mbit/s",),
    ),
    Row(
        "sndlib_native_two_demands_of_a_pair.txt",
        "demands FILE --matrix FILE --routing single",
        0,
        ("2 pairs, 2.2e-05 Mbit/s",),
        notes=2,
    ),
    Row(
        "empty_messages.json",
        "simulate torus:4x4 --traffic FILE",
        2,
        ("it has no message; give one or more",),
    ),
    Row(
        README,
        "simulate torus:4x4 --duration 1e-9",
        5,
        ("CANNOT TELL", "verdict: cannot tell (0 of 3 checks)"),
    ),
    Row(
        README,
        f"{STREAM} --packet-rate 10 --duration 30",
        0,
        ("verdict: passed (8 of 8 checks)",),
    ),
    Row(README, f"{STREAM} --duration 0.3", 2, ("make the stream longer than 0.42 s",)),
)
ON_SWITCHES: tuple[Row, ...] = (
    Row("capacity_1e300.json", "up FILE", 2, ("must be at most 1e+15",)),
    Row("one_bit_per_second.json", "up FILE", 0, ("up in", "h_b"), "h_b hostname\n", notes=1),
    Row(
        "names_unicode_spaces_long.json",
        "up FILE",
        0,
        ("0% dropped (2/2 received)",),
        "pingall 5\n",
    ),
    Row("evil_names.json", "up FILE", 0, ("0% dropped (110/110 received)",), "pingall 5\n"),
    Row(
        "hosts_named_from_h1_switches_out_of_order.json",
        "up FILE",
        0,
        ("reaches it too h1 h2 PING", "0 received", "1 received"),
        NAMES,
    ),
    Row(
        README,
        "up ring:4",
        2,
        (
            "exit h0",
            "s1-eth2<->s2-eth1 (down down)",
            "s1->s2 down",
            "s1-eth2<->s2-eth1 (down down)",
        ),
        PROMPT + CUTS,
        notes=3,
    ),
)


def given() -> dict[str, Path]:
    """Every file of the trials, by its name."""
    return {path.name: path for path in sorted(INPUTS.iterdir())}


def outcome(row: Row, folder: Path) -> Outcome:
    """Carry the row's command out, in that folder: by ``main``, or as a program where it enters a sandbox."""
    (folder / ABC).write_text(ABC_TEXT)
    path = given().get(row.file)
    words = [word.replace("FILE", str(path)) for word in shlex.split(row.command)]
    if words[0] in ("python", "up"):
        done = run(
            [sys.executable, *words[1:]] if words[0] == "python" else [*TESTBED, *words],
            input=row.typed,
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, _complaints(done.stderr))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        code = main(words)
    return Outcome(code, out.getvalue(), _complaints(err.getvalue()))


def _complaints(stderr: str) -> tuple[str, ...]:
    """Lines on stderr but for those about compiling, which happens once a machine."""
    return tuple(
        line
        for line in stderr.splitlines()
        if line.strip() and not line.startswith("testbed: compil")
    )


def table() -> Iterator[str]:
    """One line a row, as they are carried out, and one a file that a test of the product has."""
    for row in (*QUICK, *ON_SWITCHES):
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(row, Path(folder))
        first = found.first_line.replace(f"{given()[row.file].parent}/", "")
        yield f"{row.file} | {row.command} | {found.code} | {first}"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
