"""Machines whose sandboxes have no interface, reached through pasta by an ordinary user: two network namespaces, a Dask
worker in each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.machine.encryption import encryption_means
from testbed.emulation.sandbox.sandbox import sandbox_command
from testbed.machines.adapters.actor import start_uplink, uplink_argv
from tests.helpers.ordinary_user import as_ordinary_user

ENCRYPTION = encryption_means()[1]
NOBODY_WITH_PASTA = os.geteuid() == 0 and shutil.which("pasta") is not None
SCHEDULER = "tcp://192.168.78.9:8786"
STREAM = (
    "stream",
    "ring:4",
    "--from",
    "s0",
    "--to",
    "s2",
    "--packet-rate",
    "200",
    "--faults",
    "s0->s1@1-2",
    "--duration",
    "4",
)


def test_pasta_passes_on_what_a_run_uses_and_nothing_else() -> None:
    words = uplink_argv("pasta", 7, 20006)
    assert words[:3] == ["setpriv", "--pdeathsig", "KILL"] and words[-1] == "7"
    asked = dict(pairwise(words))
    assert (asked["-t"], asked["-u"], asked["-T"], asked["-U"]) == (
        "20006",
        "20006,20007",
        "none",
        "none",
    )


def test_root_hands_pasta_the_network_as_a_file_and_lets_it_stay_root() -> None:
    words = uplink_argv("pasta", 7, 20006, root=True)
    assert "mount --bind /proc/7/ns/net /mnt/net" in words[words.index("sh") + 2]
    asked = dict(pairwise(words))
    assert (asked["--runas"], asked["--netns"]) == ("0:0", "/mnt/net")


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("pasta") is None, reason="it is about root, with pasta"
)
@pytest.mark.skipif(
    "\t00000000\t" not in Path("/proc/net/route").read_text(), reason="this machine has no way out"
)
def test_root_gives_a_sandbox_an_uplink() -> None:
    sandbox = subprocess.Popen(sandbox_command(["sleep", "30"], die_with_parent=True))
    uplink = start_uplink(sandbox.pid, 20006)
    try:
        assert uplink is not None
        inside = [
            "nsenter",
            "-t",
            str(sandbox.pid),
            "-n",
            "ip",
            "-4",
            "-o",
            "route",
            "show",
            "default",
        ]
        assert subprocess.run(inside, capture_output=True, text=True, check=True).stdout.startswith(
            "default via"
        )
    finally:
        for process in (uplink, sandbox):
            if process is not None:
                process.kill()
                process.wait()


@contextmanager
def networks() -> Iterator[dict[int, list[str]]]:
    """By number, the words that run a command in its network: machines 1 and 2, and 9, which has the bridge between
    them."""
    with ExitStack() as stack:
        holders = {}
        for number in (1, 2, 9):
            holder = subprocess.Popen(
                ["unshare", "-n", "sh", "-c", "echo; exec sleep 300"], stdout=subprocess.PIPE
            )
            stack.callback(holder.kill)
            assert holder.stdout is not None and holder.stdout.readline()
            holders[number] = holder.pid
        inside = {number: ["nsenter", "-t", str(pid), "-n"] for number, pid in holders.items()}
        commands = [
            "link set lo up",
            "link add br0 mtu 9000 type bridge",
            "link set br0 up",
            "address add 192.168.78.9/24 dev br0",
        ]
        commands += [
            f"link add v{k} mtu 9000 type veth peer name between mtu 9000 netns {holders[k]}"
            for k in (1, 2)
        ]
        commands += [f"link set v{k} master br0 up" for k in (1, 2)]
        own = (
            "link set lo up\nlink set between up\naddress add 192.168.78.{k}/24 dev between\nroute add default "
            "via 192.168.78.254\n"
        )
        for number, text in (
            (9, "\n".join(commands) + "\n"),
            (1, own.format(k=1)),
            (2, own.format(k=2)),
        ):
            subprocess.run(
                [*inside[number], "ip", "-batch", "-"], input=text, text=True, check=True
            )
        yield inside


def streamed_by_an_ordinary_user(*more: str) -> dict[str, Any]:
    """Figures of a stream over two workers whose sandboxes have an uplink by pasta."""

    def started(inside: list[str], *words: str) -> subprocess.Popen[str]:
        command = as_ordinary_user(
            ["sh", "-c", 'cd $HOME && exec "$@"', "sh", sys.executable, "-m", *words]
        )
        return subprocess.Popen(
            [*inside, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    with networks() as inside, ExitStack() as stack:
        dask = "distributed.cli.dask_"
        processes = [
            started(inside[9], f"{dask}scheduler", "--host", "192.168.78.9", "--port", "8786", "--no-dashboard"),
            *(
                started(inside[k], f"{dask}worker", SCHEDULER, "--name", f"m{k}", "--nthreads", "1", "--no-nanny",
                        "--no-dashboard", "--host", f"192.168.78.{k}")
                for k in (1, 2)
            ),
        ]  # fmt: skip
        for process in processes:
            stack.callback(process.kill)
        words = (
            "--machines",
            SCHEDULER,
            "--without-tls",
            "--underlay",
            "between",
            "--mtu",
            "1390",
            "--json",
            *more,
        )
        run = started(inside[9], "testbed.cli", *STREAM, *words)
        out, errors = run.communicate(timeout=150)
    assert run.returncode == 0, errors[-2000:]
    figures: dict[str, Any] = json.loads(out)["figures"]
    assert figures["crossing_sent"] > 100 and len(figures["machines"]) == 2
    return figures


@pytest.mark.emulation
@pytest.mark.soak
@pytest.mark.skipif(not NOBODY_WITH_PASTA, reason="needs root, to be nobody, and pasta")
def test_ordinary_user_streams_over_workers_with_uplinks_by_pasta() -> None:
    assert streamed_by_an_ordinary_user()["crossing_encrypted_by"] == []


@pytest.mark.soak  # not marked emulation: a machine that has all else may lack WireGuard
@pytest.mark.skipif(not NOBODY_WITH_PASTA, reason="needs root, to be nobody, and pasta")
@pytest.mark.skipif(ENCRYPTION is not None, reason=str(ENCRYPTION))
def test_wireguard_goes_through_pasta() -> None:
    assert len(streamed_by_an_ordinary_user("--encrypt")["crossing_encrypted_by"]) == 2
