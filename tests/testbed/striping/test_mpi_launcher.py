"""The command line of mpiexec, and the machine without one."""

from pathlib import Path

import pytest

from testbed.cli import main
from testbed.emulation.sandbox.process_lifetime import confined
from testbed.errors import CapabilityError
from testbed.striping.emulated.mpi_launcher import find_mpiexec, mpiexec_argv
from testbed.striping.emulated.program_run import Place


def test_every_rank_has_its_host_and_its_environment() -> None:
    ranks = [
        Place(
            rank=i,
            node=f"t{i}",
            host=f"h{i}",
            ip=f"10.0.0.{i + 1}",
            environment={"SFIO_RANK": str(i)},
        )
        for i in range(2)
    ]
    words = mpiexec_argv(
        Path("/opt/mpiexec"), Path("/tmp/launcher"), ranks, ["python", "a.py"], prefixed=True
    )
    text = " ".join(words)
    assert "-hosts 10.0.0.1,10.0.0.2 -ppn 1 -l" in text
    assert "-genv MPIR_CVAR_NOLOCAL 1 -genv UCX_TLS tcp,self" in text
    ran = " ".join(confined(["python", "a.py"]))
    assert text.endswith(f"-n 1 -env SFIO_RANK 0 {ran} : -n 1 -env SFIO_RANK 1 {ran}")


def test_a_machine_without_mpich_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTBED_MPI", str(tmp_path))
    with pytest.raises(CapabilityError, match="install the extra `mpi`"):
        find_mpiexec()
    (tmp_path / "mpiexec.hydra").write_text("#!/bin/sh\n")
    (tmp_path / "mpiexec.hydra").chmod(0o755)
    assert find_mpiexec() == tmp_path / "mpiexec.hydra"


def test_the_command_needs_mpich_for_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESTBED_MPI", str(tmp_path))
    words = ["run", "crossbar:3", "--compute-nodes", "1", "--io-nodes", "1", "--mpi", "--", "true"]
    assert main(words) == 3
    assert "install the extra `mpi`" in capsys.readouterr().err
