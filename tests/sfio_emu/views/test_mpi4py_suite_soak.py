"""Programs of others on striped files: mpi4py's own tests of MPI.File, where its source distribution can be had, and
what ROMIO's test programs do, beside ROMIO. (`make soak`)"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from testbed.errors import CapabilityError
from testbed.striping.emulated.mpi_launcher import find_mpiexec
from tests.sfio_emu.views.test_views_on_striped_files import listeners

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of mpi4py's tests: that of MPI4PY_TESTS, or of the source distribution of the version that is here."""
    if "MPI4PY_TESTS" in os.environ:
        return Path(os.environ["MPI4PY_TESTS"])
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed (the extra `mpi`)")
    folder, version = tmp_path_factory.mktemp("mpi4py"), importlib.metadata.version("mpi4py")
    words = [
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        str(folder),
        f"mpi4py=={version}",
    ]
    if subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, timeout=300
    ).returncode:
        pytest.skip(f"the source distribution of mpi4py {version} cannot be had")
    with tarfile.open(folder / f"mpi4py-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"mpi4py-{version}" / "test"


def environment(addresses: dict[str, tuple[str, int]], unit: int) -> dict[str, str]:
    known = ",".join(f"{host}={address}:{port}" for host, (address, port) in addresses.items())
    return {**os.environ, "SFIO_LISTENERS": known, "SFIO_UNIT": str(unit)}


def test_mpi4py_finds_no_fault_in_files_on_striped_files(suite: Path, tmp_path: Path) -> None:
    with listeners(tmp_path, ["p1", "p2", "p3"]) as addresses:
        done = subprocess.run(
            [sys.executable, "-m", "tests.helpers.mpi4py_suite", str(suite)],
            env=environment(addresses, 7), capture_output=True, text=True, timeout=900,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[2]) >= 88 and " 0 failed, 0 skipped" in done.stdout


def test_romio_programs_end_as_with_romio(tmp_path: Path) -> None:
    try:
        mpiexec = find_mpiexec()
    except CapabilityError:
        pytest.skip("MPI is not installed (the extra `mpi`)")
    found = []
    with listeners(tmp_path / "nodes", ["p1", "p2", "p3"]) as addresses:
        for which, folder in (("romio", str(tmp_path)), ("sfio", "romio")):
            done = subprocess.run(
                [mpiexec, "-n", "4", sys.executable, "-m", "tests.helpers.romio_programs", which, folder],
                env=environment(addresses, 75), capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            found.append(
                json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
            )
    by_romio, by_sfio = found
    assert by_sfio == by_romio | {"external32": by_sfio["external32"]}
    big = b"".join((256 * rank + n).to_bytes(4, "big") for rank in range(4) for n in range(3))
    assert by_sfio["external32"] == [list(big)] * 4 and by_sfio["atomicity"] == [True] * 4
