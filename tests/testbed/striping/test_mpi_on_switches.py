"""Real MPI ranks inside emulated hosts: what they say crosses the links, and they share a striped file through
views."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import CapabilityError
from testbed.striping.emulated.mpi_launcher import find_mpiexec
from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]


def _without_mpi() -> bool:
    try:
        find_mpiexec()
    except CapabilityError:
        return True
    return importlib.util.find_spec("mpi4py") is None


needs_mpi = pytest.mark.skipif(_without_mpi(), reason="MPI is not installed (the extra `mpi`)")

ALL_TO_ALL = """
import sys
import numpy as np
from mpi4py import MPI

world, size = MPI.COMM_WORLD, int(sys.argv[1])
sent = np.full(size * world.size, world.rank, np.uint8)
received = np.zeros_like(sent)
world.Alltoall(sent, received)
assert (received.reshape(world.size, size) == np.arange(world.size, dtype=np.uint8)[:, None]).all()
sys.stdout.write(f"rank {world.rank} of {world.size}\\n")
"""

COLUMNS = """
import os
import sys
import numpy as np
from mpi4py import MPI
from sfio_emu.adapters.environment import parse_listeners
from sfio_emu.adapters.mpi_datatypes import datatype_by_pack
from sfio_emu.adapters.mpi_group import MpiGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.views.datatypes import INT32
from sfio_emu.client.session import Session
from sfio_emu.views.mpi_file import MpiFile

world = MPI.COMM_WORLD
matrix = np.arange(400 * 300, dtype=np.int32).reshape(400, 300)
width = 300 // world.size
opaque = MPI.INT.Create_subarray([400, 300], [400, width], [0, width * world.rank]).Commit()
group = MpiGroup(world)
assert sorted(world.allgather(group.fetch_add("counter:7", 2))) == [2 * n for n in range(world.size)]
session = Session(TcpConnections(parse_listeners(os.environ["SFIO_LISTENERS"])), group)
with MpiFile.open("p1/a;p2/b;", 75, session=session) as file:
    file.set_view(0, INT32, datatype_by_pack(opaque))
    file.write_all(np.ascontiguousarray(matrix[:, width * world.rank : width * (world.rank + 1)]))
    file.set_view()
    whole = np.zeros_like(matrix)
    assert file.read_at_all(0, whole) == matrix.nbytes
    assert np.array_equal(whole, matrix)
session.close()
group.close()
sys.stdout.write(f"rank {world.rank} has the matrix\\n")
"""


FAILING = "from mpi4py import MPI\nMPI.COMM_WORLD.rank == 1 and MPI.COMM_WORLD.Abort(7)\nMPI.COMM_WORLD.Barrier()\n"
PROGRAMS = {"exchange": (ALL_TO_ALL, ["500000"]), "matrix": (COLUMNS, []), "failing": (FAILING, [])}


def run_ranks(folder: str, programs: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Inside a sandbox: programs of three ranks on a crossbar, one after the other; the exit code of each, its lines,
    the bytes on each host's links, the sizes of the subfiles."""
    from testbed.striping.emulated.mpi_launcher import mpi_job
    from testbed.striping.emulated.program_run import ProgramNetwork
    from testbed.striping.placement import place
    from topologies import load_network

    root, told = Path(folder) / "root", {}
    with ProgramNetwork(place(load_network("crossbar:3"), 3, 2), root, shape=False) as network:
        for name, words in programs.items():
            before = network.net.link_counters()
            with mpi_job(
                network.net, network.places(), [sys.executable, *words], output=subprocess.PIPE
            ) as job:
                output, _ = job.communicate(timeout=100)
            after = network.net.link_counters()
            crossed = {f"{a}->{b}": after[a, b, n][1] - before[a, b, n][1] for a, b, n in after}
            sizes = {
                place: (root / place).stat().st_size
                for place in ("p1/a", "p2/b")
                if (root / place).exists()
            }
            told[name] = {
                "code": job.returncode,
                "lines": sorted(output.splitlines()),
                "crossed": crossed,
                "sizes": sizes,
            }
    return told


@pytest.fixture(scope="module")
def told(
    sandboxed: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    for name, (text, _) in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    programs = {name: [str(folder / f"{name}.py"), *words] for name, (_, words) in PROGRAMS.items()}
    found: dict[str, dict[str, Any]] = sandboxed(run_ranks, str(folder), programs, timeout_s=300.0)
    return found


@needs_mpi
@pytest.mark.long
def test_an_exchange_of_mpi_ranks_crosses_the_links(told: dict[str, dict[str, Any]]) -> None:
    exchange = told["exchange"]
    assert (exchange["code"], exchange["lines"]) == (0, [f"rank {rank} of 3" for rank in range(3)])
    for rank in range(3):
        assert exchange["crossed"][f"t{rank}->s1"] >= 2 * 500_000
        assert exchange["crossed"][f"s1->t{rank}"] >= 2 * 500_000
        assert exchange["crossed"][f"s1->r{rank}"] < 100_000


@needs_mpi
def test_mpi_ranks_write_and_read_a_striped_matrix_by_their_own_datatypes(
    told: dict[str, dict[str, Any]],
) -> None:
    matrix = told["matrix"]
    assert (matrix["code"], matrix["lines"]) == (
        0,
        [f"rank {rank} has the matrix" for rank in range(3)],
    )
    assert matrix["sizes"] == {"p1/a": 240_000, "p2/b": 240_000}
    for node in ("r0", "r1"):
        assert matrix["crossed"][f"s1->{node}"] >= 240_000  # written
        assert matrix["crossed"][f"{node}->s1"] >= 3 * 240_000  # read by every rank


@needs_mpi
def test_a_failing_rank_is_the_exit_code(told: dict[str, dict[str, Any]]) -> None:
    assert told["failing"]["code"] == 7


@needs_mpi
def test_command_runs_a_program_as_mpi_ranks_with_group_and_listeners(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from mpi4py import MPI\nimport sfio_emu\n"
        "assert (sfio_emu.rank(), sfio_emu.size()) == (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)\n"
        "with sfio_emu.StripedFile.open('p1/a;p2/b;', 5) as file:\n"
        "    file.pwrite(bytes([65 + sfio_emu.rank()]) * 10, 10 * sfio_emu.rank())\n"
    )
    words = [
        "run",
        "crossbar:3",
        "--compute-nodes",
        "3",
        "--io-nodes",
        "2",
        "--mpi",
        "--subfile-dir",
        str(tmp_path / "root"),
    ]
    words += ["--", "python", str(program)]
    done = run([*TESTBED, *words], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert (
        (tmp_path / "root" / "p1" / "a").read_bytes()
        == b"AAAAABBBBBCCCCC"
        == (tmp_path / "root" / "p2" / "b").read_bytes()
    )
