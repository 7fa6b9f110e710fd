"""Machines whose sandboxes have no interface, reached through pasta by an ordinary user: two network namespaces, a Dask worker in each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest

from testbed.machines.adapters.uplink import start_uplink, uplink_words
from tests.helpers.ordinary_user import as_ordinary_user

SCHEDULER = "tcp://192.168.78.9:8786"
STREAM = (
    "stream",
    "ring:4",
    "--from",
    "s0",
    "--to",
    "s2",
    "--rate-pps",
    "200",
    "--faults",
    "s0->s1@1-2",
    "--duration",
    "4",
)


def test_pasta_passes_on_what_a_run_uses_and_nothing_else() -> None:
    words = uplink_words("pasta", 7, 20006)
    assert words[:3] == ["setpriv", "--pdeathsig", "KILL"] and words[-1] == "7"
    asked = dict(pairwise(words))
    assert (asked["-t"], asked["-u"], asked["-T"], asked["-U"]) == ("20006", "20006,20007", "none", "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about root")
def test_root_gets_no_uplink_because_pasta_would_become_nobody() -> None:
    assert start_uplink(os.getpid(), 20006) is None


@contextmanager
def networks() -> Iterator[dict[int, list[str]]]:
    """By number, the words that run a command in its network: machines 1 and 2, and 9, which has the bridge between them."""
    with ExitStack() as stack:
        holders = {}
        for number in (1, 2, 9):
            holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 300"], stdout=subprocess.PIPE)
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
        commands += [f"link add v{k} mtu 9000 type veth peer name between mtu 9000 netns {holders[k]}" for k in (1, 2)]
        commands += [f"link set v{k} master br0 up" for k in (1, 2)]
        own = "link set lo up\nlink set between up\naddress add 192.168.78.{k}/24 dev between\nroute add default via 192.168.78.254\n"
        for number, text in ((9, "\n".join(commands) + "\n"), (1, own.format(k=1)), (2, own.format(k=2))):
            subprocess.run([*inside[number], "ip", "-batch", "-"], input=text, text=True, check=True)
        yield inside


@pytest.mark.emulation
@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("pasta") is None, reason="needs root, to be nobody, and pasta")
def test_an_ordinary_user_streams_over_workers_whose_sandboxes_have_an_uplink_by_pasta() -> None:
    def started(inside: list[str], *words: str) -> subprocess.Popen[str]:
        command = as_ordinary_user(["sh", "-c", 'cd $HOME && exec "$@"', "sh", sys.executable, "-m", *words])
        return subprocess.Popen([*inside, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

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
        words = ("--machines", SCHEDULER, "--underlay", "between", "--mtu", "1400", "--json")
        run = started(inside[9], "testbed.cli", *STREAM, *words)
        out, errors = run.communicate(timeout=150)
    assert run.returncode == 0, errors[-2000:]
    figures = json.loads(out)["figures"]
    assert figures["crossing_sent"] > 100 and len(figures["machines"]) == 2
