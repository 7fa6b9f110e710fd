"""Hours of streams, bulk transfers, striped files and faults on one held network: does anything grow?

    python benchmarks/scale/soak_session.py --hours 2 --out soak.jsonl [--picture soak.svg]
    python benchmarks/scale/soak_session.py --judge soak.jsonl [--spoil] [--picture soak.svg]

A round on Swiss-T1 (links of 0.5 Mbit/s): a coded stream with two failures, a liquid bulk transfer, a cable that is
broken and repaired between pings; meanwhile two programs in hosts write striped files over two listeners and compare
every byte they read. A run that came too late (``invalid``) is counted; an exception, a failed verdict, a lost or wrong
byte is an error. A row every 10 seconds, and one at the end of each round, when nothing is at work (``quiet``): these
are judged, past the first quarter, by the slope and its 95 % interval, widened for what a sample has of its neighbour.
Flat: the interval lies below the bar. ``--spoil`` adds a leak of a descriptor and 100 kB a round, which must be found.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import testbed
from testbed.errors import InvalidRunError

COUNTS = ("rules", "descriptors", "threads", "interfaces", "processes")
BAR = 1.0
"""Most growth an hour of each of these, and of each kind of process in megabytes."""
KINDS = (
    ("soak_session", "caller"),
    ("ovs-vswitchd", "switch daemon"),
    ("ovsdb-server", "database"),
    ("openflow_controller", "controller"),
    ("sfio_emu.adapters.listener", "listeners"),
    ("mwritec", "clients"),
    ("python", "testbed"),
)
CLIENT = """
import json, random, sys
from sfio_emu import mclose, mdelete, mopen, mreadc, mwritec, use
from sfio_emu.adapters.environment import session_from_environment
name, size, chance = sys.argv[1], 20_000, random.Random(sys.argv[1])
for number, _ in enumerate(sys.stdin):
    session = session_from_environment()
    use(session)
    file = mopen(name, 1000)
    if number % 10 == 0:
        known = bytearray(size)
        mwritec(file, 0, known, size)
    for _ in range(3):
        piece = chance.randbytes(chance.randrange(1, 5000))
        place = chance.randrange(size - len(piece))
        mwritec(file, place, piece, len(piece))
        known[place : place + len(piece)] = piece
    mclose(file)
    file, found = mopen(name, 1000), bytearray(size)
    mreadc(file, 0, found, size)
    mclose(file)
    if number % 10 == 9:
        mdelete(name)
    session.close()
    print(json.dumps(sum(a != b for a, b in zip(found, known))), flush=True)
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.05)
    parser.add_argument("--out", type=Path, help="append a JSON object a sample")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="samples of an earlier run")
    parser.add_argument(
        "--spoil", action="store_true", help="add a leak of a descriptor and 100 kB a round"
    )
    parser.add_argument("--picture", type=Path, help="an SVG of the curves")
    args = parser.parse_args(argv)
    if args.judge is None:
        args.judge = args.out or Path(tempfile.mkstemp(suffix=".jsonl")[1])
        soak(args.hours * 3600, args.judge)
    samples = [json.loads(row) for row in args.judge.read_text().splitlines()]
    if args.spoil:
        samples = [spoilt(sample) for sample in samples]
    judged = judge(samples)
    print(
        f"{samples[-1]['t_s'] / 3600:.2f} h, load {samples[-1]['load']}, rounds: {samples[-1]['done']}"
    )
    for name, row in judged.items():
        slope = "{first:9.2f} to {last:9.2f}, {slope:8.3f} +- {half:.3f} an hour: {say}".format(
            **row
        )
        print(f"{name:22} {slope}")
    if args.picture:
        from testbed.report.drawing.svg_figures import figures_with_text

        args.picture.write_bytes(
            figures_with_text("soak", functools.partial(draw, samples))["soak"].svg
        )
    errors = sum(many for what, many in samples[-1]["done"].items() if what.endswith(": error"))
    return int(errors > 0 or any(row["say"] != "flat" for row in judged.values()))


def soak(seconds: float, out: Path) -> None:
    """Rounds on one held network for that long."""
    network = testbed.network("swiss-t1")
    network = replace(
        network, links=tuple(replace(link, capacity_bps=5e5) for link in network.links)
    )
    began, done, stop = time.monotonic(), Counter[str](), threading.Event()
    with (
        testbed.session(network) as session,
        tempfile.TemporaryDirectory() as folder,
        out.open("a") as file,
    ):
        lock = threading.Lock()

        def sample(**more: object) -> None:
            row = {"t_s": round(time.monotonic() - began, 1), "done": dict(done), **more, **held()}
            with lock:
                file.write(json.dumps(row) + "\n")
                file.flush()

        def sampling() -> None:
            while not stop.wait(10):
                sample()

        def counted(what: str, act: Callable[[], str]) -> None:
            try:
                done[f"{what}: {act()}"] += 1
            except Exception as error:  # noqa: BLE001 - hours of it: counted, and the next goes on
                done[f"{what}: error"] += 1
                print(
                    f"{time.monotonic() - began:.0f} s: {what}: {error!r}",
                    file=sys.stderr,
                    flush=True,
                )

        start = striping_programs(session, Path(folder))
        clients = {host: start(host) for host in ("t1", "t17")}
        threading.Thread(target=sampling, daemon=True).start()
        number = 0
        while time.monotonic() - began < seconds:
            over = threading.Event()
            files = [
                threading.Thread(target=striped, args=(clients, host, start, over, counted))
                for host in clients
            ]
            for thread in files:
                thread.start()
            counted("stream", functools.partial(streamed, session, number))
            counted("fault", functools.partial(broken, session, number))
            over.set()
            for thread in files:
                thread.join()
            counted("bulk", functools.partial(transferred, session, number))
            number += 1
            time.sleep(2)
            sample(quiet=True, round=number, rules=rules(session))
        stop.set()


def striping_programs(session: Any, folder: Path) -> Callable[[str], subprocess.Popen[str]]:
    """Two listeners; what starts in a host the program that waits for a line before it writes and reads."""
    nodes, pipes = (
        ("r3", "r21"),
        {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
    )
    for node in nodes:
        words = [
            "--root",
            str(folder),
            "--listen",
            f"{node}@{session.address(node)}:7999",
            "--without-key",
        ]
        listener = session.popen(
            node, [sys.executable, "-P", "-m", "sfio_emu.adapters.listener", *words], **pipes
        )
        assert listener.stdout.readline()
    known = ",".join(f"{node}={session.address(node)}:7999" for node in nodes)
    env = {"SFIO_LISTENERS": known, "SFIO_TIMEOUT_S": "100"}

    def start(host: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-P", "-c", CLIENT, ";".join(f"{node}/{host}" for node in nodes)]
        return session.popen(host, words, env=env, **pipes)

    return start


def striped(
    clients: dict[str, subprocess.Popen[str]],
    host: str,
    start: Callable[[str], subprocess.Popen[str]],
    over: threading.Event,
    counted: Callable[[str, Callable[[], str]], None],
) -> None:
    """Have the host's program write and read again and again until the round is over; another where it ended."""

    def once() -> str:
        client = clients[host]
        with suppress(BrokenPipeError):
            client.stdin.write("\n")
            client.stdin.flush()
        answer = client.stdout.readline()
        if not answer:
            client.wait()
            clients[host] = start(host)
            raise ValueError(f"the program in {host} ended with exit code {client.returncode}")
        if json.loads(answer):
            raise ValueError(f"{answer.strip()} wrong bytes in a striped file")
        return "passed"

    while not over.is_set():
        counted("striped files", once)
        over.wait(0.5)


def streamed(session: Any, number: int) -> str:
    a, b = [("s1", "s6"), ("s2", "s5"), ("s4", "s8")][number % 3]
    first, second = [
        f"{link.source}->{link.target}" for link in session.network.links if link.source == a
    ][:2]
    faults = [f"{first}@1.5-3", f"{second}@4-5.5"]
    return said(session.stream(a, b, faults=faults, duration_s=7, rate_pps=50, playback_s=2.0))


def transferred(session: Any, number: int) -> str:
    """A liquid schedule's transfers, all at once between as many hosts as two processors carry."""
    pairs = [(f"t{8 * k}", f"r{(8 * (k + d) + number) % 32}") for k in range(4) for d in (1, 2)]
    try:
        outcome = session.bulk(pattern=pairs, message_bytes=150_000, inject_packets=5)
        return said(outcome) + (", every message verified" if outcome.document["verified"] else "")
    except InvalidRunError as late:
        print(f"invalid: {late}", file=sys.stderr, flush=True)
        return "invalid, not past calibration"


def said(outcome: Any) -> str:
    """How a measured run ended; ValueError where it failed."""
    if outcome.verdict.invalid is not None:
        print(f"invalid: {outcome.verdict.invalid}", file=sys.stderr, flush=True)
        return "invalid"
    if not outcome.passed:
        raise ValueError(f"failed: {json.dumps(outcome.verdict.to_json()['failed'])[:400]}")
    return "passed"


def broken(session: Any, number: int) -> str:
    link, kind = "s1->s2", ("down", "blackhole")[number % 2]
    session.fail(link, kind)
    lost = session.ping("s1", "s2", wait_s=0.5).received
    session.restore(link)
    back = session.ping("s1", "s2", wait_s=10).received
    if lost or not back:
        raise ValueError(f"{lost} of 3 echoes over the broken cable, {back} over the repaired one")
    return "passed"


def rules(session: Any) -> int:
    """OpenFlow rules in all switches."""
    count = "for b in $(ovs-vsctl list-br); do ovs-ofctl -O OpenFlow13 dump-flows $b; done | grep -c table="
    return int(session.exec("s1", ["sh", "-c", count]).stdout)


def held() -> dict[str, Any]:
    """What this process and all below it hold; memory of its own (not what programs map
    from files, whose share changes with who else does) by kind of process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    found, spaces = Counter[str](), set[str]()
    memory = Counter[str]()
    for pid in parents:
        above = pid
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        entry = Path(f"/proc/{pid}")
        try:
            if not above:
                continue
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            pss = next(
                row
                for row in (entry / "smaps_rollup").read_text().splitlines()
                if row.startswith("Pss_Anon:")
            )
            space = str((entry / "ns" / "net").readlink())
            if space not in spaces:
                found["interfaces"] += len((entry / "net" / "dev").read_text().splitlines()) - 2
                spaces.add(space)
            found["threads"] += len(list((entry / "task").iterdir()))
            found["descriptors"] += len(list((entry / "fd").iterdir()))
        except (OSError, StopIteration):
            continue
        found["processes"] += 1
        memory[next((kind for part, kind in KINDS if part in words), "others")] += (
            int(pss.split()[1]) / 1e3
        )
    slab = next(
        row
        for row in Path("/proc/meminfo").read_text().splitlines()
        if row.startswith("SUnreclaim")
    )
    kernel = {
        "machine_slab_mb": round(int(slab.split()[1]) / 1e3, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    return {**found, "mb": {kind: round(mb, 2) for kind, mb in sorted(memory.items())}, **kernel}


def spoilt(sample: dict[str, Any], *, descriptors: int = 1, mb: float = 0.1) -> dict[str, Any]:
    """The sample as it were if every round left so many descriptors and megabytes in the caller."""
    rounds = sum(many for what, many in sample["done"].items() if what.startswith("bulk"))
    held_mb = {kind: has + mb * rounds * (kind == "caller") for kind, has in sample["mb"].items()}
    return {**sample, "descriptors": sample["descriptors"] + descriptors * rounds, "mb": held_mb}


def curves(samples: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Curve -> one value a sample."""
    found = {
        name: np.array([float(row[name]) for row in samples])
        for name in COUNTS
        if name in samples[0]
    }
    kinds = sorted({kind for row in samples for kind in row["mb"]})
    return found | {
        f"MB of {kind}": np.array([row["mb"].get(kind, np.nan) for row in samples])
        for kind in kinds
    }


def judge(samples: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Curve -> its first and last value, its slope an hour with the half width of its interval, and what that says."""
    quiet = [row for row in samples if row.get("quiet") and row["t_s"] >= samples[-1]["t_s"] / 4]
    hours, judged = np.array([row["t_s"] for row in quiet]) / 3600, {}
    for name, values in curves(quiet).items():
        known = np.isfinite(values)
        values = values[known]
        slope, half = slope_of(hours[known], values)
        say = (
            "flat"
            if slope + half < BAR
            else "grows"
            if slope - half > 0 and slope > BAR
            else "undecided"
        )
        judged[name] = {
            "first": values[0],
            "last": values[-1],
            "slope": slope,
            "half": half,
            "say": say,
        }
    return judged


def slope_of(at: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """(least-squares slope, half width of its 95 % interval); fewer samples count where neighbours are alike."""
    away = at - at.mean()
    slope = float(away @ values / (away @ away))
    rest = values - values.mean() - slope * away
    if not rest.any():
        return slope, 0.0
    alike = max(0.0, float(rest[1:] @ rest[:-1] / (rest @ rest)))
    count = max(3.0, len(at) * (1 - alike) / (1 + alike))
    return slope, float(1.96 * np.sqrt(rest @ rest / (count - 2) / (away @ away)))


def draw(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The quiet samples over hours; pale: the descriptors of all others."""
    from testbed.report.drawing.charts import HUES, panels

    figure, axes = panels(8, 7, 3, sharex=True)
    quiet, busy = (
        [row for row in samples if bool(row.get("quiet")) is still] for still in (True, False)
    )
    found, meanwhile = curves(quiet), curves(busy)
    memory = tuple(name for name in found if name not in COUNTS)
    for axis, names in zip(axes, (COUNTS[:2], COUNTS[2:], memory), strict=True):
        for hue, name in zip(HUES, names, strict=False):
            axis.plot([row["t_s"] / 3600 for row in quiet], found[name], color=hue, label=name)
            if name == "descriptors":
                axis.plot(
                    [row["t_s"] / 3600 for row in busy],
                    meanwhile[name],
                    color=hue,
                    linewidth=0.6,
                    alpha=0.4,
                )
        axis.set(ylim=(0, 1.3 * axis.get_ylim()[1]))
        axis.locator_params(axis="y", nbins=4)
        axis.legend(loc="upper right", ncols=4)
    axes[-1].set(xlabel="hours")
    return {"soak": figure}


if __name__ == "__main__":
    sys.exit(main())
