"""A scheduler and a worker as ``examples/ssh_machines.py`` starts them: they speak to who has the certificates, and to
nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest

from testbed.machines.adapters.clusters.dask_security import quiet_dask, scheduler_security
from testbed.machines.machines_request import TlsFiles
from tests.helpers.module_files import module_of
from tests.helpers.paths import ROOT


@pytest.fixture
def example() -> ModuleType:
    return module_of(ROOT / "examples" / "ssh_machines.py")


def test_certificates_lie_where_only_this_user_reads_them_and_go(example: ModuleType) -> None:
    with example.certificates([], {}) as directory:
        made = sorted(Path(directory).iterdir())
        assert Path(directory).stat().st_mode & 0o777 == 0o700
        assert [(path.name, path.stat().st_mode & 0o777) for path in made] == [
            ("ca.pem", 0o600), ("cert.pem", 0o600), ("key.pem", 0o600)
        ]  # fmt: skip
    assert not Path(directory).exists()


def started(stack: ExitStack, config: str, said: str, *words: str) -> str:
    """A process of the cluster's; the line that says where it is."""
    environment = {**os.environ, "DASK_INTERNAL_INHERIT_CONFIG": config}
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_spec", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stderr is not None
    return next(line for line in process.stderr if said in line)


def test_only_who_has_the_certificates_is_answered(example: ModuleType) -> None:
    import dask
    from distributed import Client, Security

    with ExitStack() as stack:
        directory = stack.enter_context(example.certificates([], {}))
        with dask.config.set(example.dask_settings(directory)):
            config = dask.config.serialize(dask.config.global_config)
        common = {"host": "127.0.0.1", "protocol": "tls"}
        options = {"port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0", **common}
        line = started(
            stack,
            config,
            "Scheduler at",
            "--spec",
            json.dumps({"cls": "distributed.Scheduler", "opts": options}),
        )
        address = line.split("Scheduler at:")[1].strip()
        worker = {
            "0": {"cls": "distributed.Worker", "opts": {"nthreads": 1, "memory_limit": 0, **common}}
        }
        started(stack, config, "worker at", address, "--spec", json.dumps(worker))
        ours = example.tls_options(directory)
        security = scheduler_security(address, TlsFiles(ca=ours[1], cert=ours[3], key=ours[5]))
        with Client(address, security=security, timeout=10) as client:
            assert client.submit(int).result(timeout=20) == 0
        for other, theirs in (
            (address, Security.temporary()),
            (address.replace("tls", "tcp"), None),
        ):
            with (
                pytest.raises((OSError, TypeError, ValueError)),
                Client(other, security=theirs, timeout=2),
            ):
                pass


def test_a_campaign_of_many_units_is_no_word_of_dasks() -> None:
    import dask
    from dask.utils import parse_bytes

    name = "distributed.admin.large-graph-warning-threshold"
    with dask.config.set({name: "10MB"}):
        quiet_dask({})
        assert parse_bytes(dask.config.get(name)) > 10**12
