"""The workers of this machine: nobody else's to command, and nothing of them stays."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from testbed.campaigns.adapters.dask_workers import dask_client
from testbed.campaigns.adapters.runner import _compute_on_worker
from testbed.campaigns.description import parse_campaign, units
from testbed.errors import InputError
from testbed.machines.adapters.clusters.dask_security import scheduler_security
from testbed.machines.machines_request import TlsFiles
from tests.helpers.ordinary_user import as_ordinary_user
from tests.helpers.paths import ROOT
from topologies.files.foreign import NetworkNote

TAKE_OVER = """
import sys
from distributed import Client, Security
for address in sys.argv[1:]:
    try:
        with Client(address, security=Security.temporary() if "tls" in address else None, timeout=2) as client:
            print("ran", client.submit(int).result(timeout=5))
    except Exception:
        print("refused")
"""
HELD = """
import time
from testbed.campaigns.adapters.dask_workers import dask_client
if __name__ == "__main__":
    with dask_client(1, None) as client:
        print(client.submit(int).result(), flush=True)
        time.sleep(60)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_runs_nothing_on_local_workers() -> None:
    with dask_client(1, None) as client:
        found = client.scheduler_info()
        ports = {
            address.rpartition(":")[2] for address in (client.scheduler.address, *found["workers"])
        }
        tried = [f"{scheme}://127.0.0.1:{port}" for port in ports for scheme in ("tcp", "tls")]
        words = as_ordinary_user([sys.executable, "-c", TAKE_OVER, *tried])
        said = subprocess.run(words, capture_output=True, text=True, timeout=100).stdout
        assert said.split() == ["refused"] * 4, said
        assert client.submit(int).result() == 0


def test_nothing_of_workers_stays_after_kill_9(tmp_path: Path) -> None:
    script = tmp_path / "held.py"
    script.write_text(HELD)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"0\n"
        made = [
            (path.stat().st_mode & 0o777, [*path.glob("dask-scratch-space*")])
            for path in temporary.iterdir()
        ]
        process.kill()  # from here on who watches for its end removes what it made
    ((mode, scratch),) = made
    assert mode == 0o700 and scratch
    until = time.monotonic() + 20
    while list(temporary.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.5)  # a worker that is still ending writes nothing again
    assert not list(temporary.iterdir())


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, str]:
    """The files of an authority, a certificate and its key."""
    from distributed import Security

    made = Security.temporary()
    files = {"ca": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in files}


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8786", "tcp://127.9.9.9:1", "tcp://localhost:1", "tcp://[::1]:1"]
)
def test_a_scheduler_on_this_machine_needs_no_certificate(address: str) -> None:
    assert scheduler_security(address, TlsFiles()) is None


@pytest.mark.parametrize(
    "address",
    ["tcp://head:8786", "head:8786", "tcp://10.0.0.1:8786", "tcp://0.0.0.0:1", "ws://head:1", "ucx://head:1",
     "tcp://[fe80::1]:1", "tcp://localhost.example:1"],
)  # fmt: skip
def test_a_scheduler_elsewhere_needs_tls_or_a_word(address: str) -> None:
    with pytest.raises(InputError, match=r"--tls-ca.*--without-tls"):
        scheduler_security(address, TlsFiles())
    assert scheduler_security(address, TlsFiles(without_tls=True)) is None


def test_certificates_come_from_files_or_dask_s_configuration(certificate: dict[str, str]) -> None:
    import dask

    found = scheduler_security("tls://head:8786", TlsFiles(**certificate))
    assert (
        found is not None
        and found.require_encryption
        and found.tls_client_key == certificate["key"]
    )
    with pytest.raises(InputError, match="give --tls-ca"):
        scheduler_security("tls://head:8786", TlsFiles())
    paths = {
        "ca-file": certificate["ca"],
        "client.cert": certificate["cert"],
        "client.key": certificate["key"],
    }
    with dask.config.set({f"distributed.comm.tls.{name}": path for name, path in paths.items()}):
        assert scheduler_security("tls://head:8786", TlsFiles()) is not None


@pytest.mark.parametrize("spoilt", ["ca", "cert", "key"])
@pytest.mark.parametrize("text", [None, "", "no certificate"])
def test_a_wrong_certificate_is_told_in_one_line(
    certificate: dict[str, str], spoilt: str, text: str | None
) -> None:
    file = Path(certificate[spoilt])
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(
        InputError, match=r"certificates of scheduler tls://head:8786 .* cannot be used: "
    ):
        scheduler_security("tls://head:8786", TlsFiles(**certificate))


def test_tls_options_that_contradict_the_address_are_refused(certificate: dict[str, str]) -> None:
    with pytest.raises(InputError, match="leave one of them out"):
        scheduler_security("tls://head:1", TlsFiles(without_tls=True))
    with pytest.raises(InputError, match="write tls://"):
        scheduler_security("tcp://127.0.0.1:1", TlsFiles(ca=certificate["ca"]))


@pytest.mark.parametrize(
    "command",
    [
        ("campaign", "thousands", "--dask"),
        ("replicate", "--dask"),
        ("up", "ring:3", "--machines"),
        ("run", "ring:3", "--compute-nodes", "1", "--io-nodes", "1", "--machines"),
        ("stream", "ring:4", "--from", "s0", "--to", "s2", "--machines"),
        ("bulk", "crossbar:4", "--machines"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_refuses_an_open_scheduler(
    command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from testbed.cli import main

    monkeypatch.chdir(tmp_path)
    program = ["--", "true"] if command[0] == "run" else []
    assert main([*command, "tcp://192.0.2.1:8786", *program]) == 2
    said = capsys.readouterr().err
    assert "--without-tls" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_files_read_by_a_worker_are_recorded_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "lab.json"
    file.write_text(
        '{"nodes": [{"id": "a", "rack": 1}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}'
    )
    campaign = parse_campaign({"name": "x", "networks": [str(file)], "methods": ["single"]}, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem, rows, notes = _compute_on_worker(campaign, units(campaign)[0])
    assert (
        problem is None
        and len(rows) == 1
        and ["kept, but not read: rack" in str(one) for one in notes] == [True]
    )
    assert all(isinstance(pickle.loads(pickle.dumps(one)), NetworkNote) for one in notes)
