"""Runs streams, bulk transfers, striped files and faults for hours: does anything grow?

    python benchmarks/scale/soak_session.py --hours 2 --out soak.jsonl [--picture soak.svg]
    python benchmarks/scale/soak_session.py --judge soak.jsonl [--spoil] [--picture soak.svg]

A round on Swiss-T1, with links of 0.5 Mbit/s, has a coded stream with two failures, a liquid bulk
transfer, and a cable that fails and is repaired between pings. Meanwhile, two programs in hosts
write striped files over two listeners, and compare every byte that they read. Runs with which the
machine did not keep up (``invalid``) are counted. An exception, a failed verdict, and a lost or
wrong byte are errors.

A sample is taken every 10 seconds, and at the end of each round, when nothing runs (``quiet``).
Quiet samples after the first quarter of the time are judged by their slope and its 95 % interval,
which is wider if successive samples are correlated. A curve is flat if the interval is below the
limit. ``--spoil`` adds a leak of one descriptor and 100 kB per round, which must be found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import testbed
from testbed.errors import InvalidRunError

COUNTS = ("rules", "descriptors", "threads", "interfaces", "processes")
# Largest accepted growth per hour of each count, and of the megabytes of each kind of process.
MAX_GROWTH = 1.0
SAMPLE_INTERVAL_S = 10
# Pause after a round, in which everything ends.
PAUSE_S = 2
# Kinds of processes by a part of their command line.
KINDS = {
    "soak_session": "caller",
    "ovs-vswitchd": "switch daemon",
    "ovsdb-server": "database",
    "openflow_controller": "controller",
    "sfio_emu.adapters.listener": "listeners",
    "mwritec": "clients",
    "python": "testbed",
}
LISTENER_PORT = 7999
# Hosts with listeners, and hosts with the programs that write striped files.
LISTENER_HOSTS = ("r3", "r21")
CLIENT_HOSTS = ("t1", "t17")
# For each line of input, the program writes and reads a file, and prints the number of wrong bytes.
CLIENT = """
import json, random, sys
from sfio_emu import mclose, mdelete, mopen, mreadc, mwritec, use
from sfio_emu.adapters.environment import session_from_environment
name = sys.argv[1]
size = 20_000
rng = random.Random(name)
for number, _ in enumerate(sys.stdin):
    session = session_from_environment()
    use(session)
    file = mopen(name, 1000)
    if number % 10 == 0:
        expected = bytearray(size)
        mwritec(file, 0, expected, size)
    for _ in range(3):
        piece = rng.randbytes(rng.randrange(1, 5000))
        position = rng.randrange(size - len(piece))
        mwritec(file, position, piece, len(piece))
        expected[position : position + len(piece)] = piece
    mclose(file)
    file = mopen(name, 1000)
    content = bytearray(size)
    mreadc(file, 0, content, size)
    mclose(file)
    if number % 10 == 9:
        mdelete(name)
    session.close()
    print(json.dumps(sum(a != b for a, b in zip(content, expected))), flush=True)
"""

Sample = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run or judge, and return 1 if there were errors or a curve is not flat."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--hours", type=float, default=0.05, help="duration (default 0.05)")
    parser.add_argument(
        "--out", type=Path, help="file to which a JSON object is appended for each sample"
    )
    parser.add_argument("--judge", type=Path, metavar="FILE", help="samples of an earlier run")
    parser.add_argument(
        "--spoil", action="store_true", help="add a leak of a descriptor and 100 kB per round"
    )
    parser.add_argument("--picture", type=Path, help="file for an SVG of the curves")
    arguments = parser.parse_args(argv)
    path = arguments.judge
    if path is None:
        path = arguments.out or Path(tempfile.mkstemp(suffix=".jsonl")[1])
        Soak(path).run(arguments.hours * 3600)
    samples = [json.loads(row) for row in path.read_text().splitlines()]
    if arguments.spoil:
        samples = [with_leak(sample) for sample in samples]
    last = samples[-1]
    print(f"{last['t_s'] / 3600:.2f} h, load {last['load']}, rounds: {last['done']}")
    curves = judge(samples)
    for name, row in curves.items():
        print(
            f"{name:22} {row['first']:9.2f} to {row['last']:9.2f}, "
            f"{row['slope']:8.3f} +- {row['half']:.3f} an hour: {row['say']}"
        )
    if arguments.picture:
        write_picture(samples, arguments.picture)
    errors = 0
    for outcome, count in last["done"].items():
        if outcome.endswith(": error"):
            errors += count
    all_flat = all(row["say"] == "flat" for row in curves.values())
    return 0 if all_flat and not errors else 1


class Soak:
    """Runs rounds on one network, and samples what it uses.

    Args:
        path: File to which samples are appended.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._start_s = time.monotonic()
        self._outcomes: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Run rounds until the time has passed."""
        network = testbed.network("swiss-t1")
        links = tuple(replace(link, capacity_bps=5e5) for link in network.links)
        with (
            testbed.session(replace(network, links=links)) as session,
            tempfile.TemporaryDirectory() as folder,
        ):
            programs = StripingPrograms(session, Path(folder))
            with self._sampling():
                number = 0
                while self._elapsed_s() < seconds:
                    self._run_round(session, programs, number)
                    number += 1
                    time.sleep(PAUSE_S)
                    self._sample(quiet=True, round=number, rules=rule_count(session))

    def _run_round(self, session: Any, programs: StripingPrograms, number: int) -> None:
        round_ended = threading.Event()
        threads = []
        for host in CLIENT_HOSTS:
            target = partial(self._write_files, programs, host, round_ended)
            threads.append(threading.Thread(target=target))
        for thread in threads:
            thread.start()
        self._count("stream", partial(run_stream, session, number))
        self._count("fault", partial(fail_and_repair, session, number))
        round_ended.set()
        for thread in threads:
            thread.join()
        self._count("bulk", partial(run_bulk, session, number))

    def _write_files(
        self, programs: StripingPrograms, host: str, round_ended: threading.Event
    ) -> None:
        """Write striped files from a host until the round ends."""
        while not round_ended.is_set():
            self._count("striped files", partial(programs.write_file, host))
            round_ended.wait(0.5)

    def _count(self, name: str, act: Callable[[], str]) -> None:
        """Run a part of a round, and count its outcome."""
        try:
            self._outcomes[f"{name}: {act()}"] += 1
        except Exception as error:  # noqa: BLE001 - any error is counted, and the soak continues
            self._outcomes[f"{name}: error"] += 1
            message = f"{self._elapsed_s():.0f} s: {name}: {error!r}"
            print(message, file=sys.stderr, flush=True)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._start_s

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        """Take a sample at regular intervals until the block ends."""
        stop = threading.Event()

        def take_samples() -> None:
            while not stop.wait(SAMPLE_INTERVAL_S):
                self._sample()

        threading.Thread(target=take_samples, daemon=True).start()
        try:
            yield
        finally:
            stop.set()

    def _sample(self, **fields: object) -> None:
        row = {
            "t_s": round(self._elapsed_s(), 1),
            "done": dict(self._outcomes),
            **fields,
            **current_usage(),
        }
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


class StripingPrograms:
    """Listeners in hosts, and programs in other hosts that write and read striped files.

    Args:
        session: The session of the network.
        folder: Folder for the subfiles.
    """

    def __init__(self, session: Any, folder: Path) -> None:
        self._session = session
        addresses = []
        for host in LISTENER_HOSTS:
            address = f"{session.address(host)}:{LISTENER_PORT}"
            addresses.append(f"{host}={address}")
            argv = [sys.executable, "-P", "-m", "sfio_emu.adapters.listener"]
            argv += ["--root", str(folder), "--listen", f"{host}@{address}", "--without-key"]
            listener = session.popen(
                host, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert listener.stdout.readline()
        self._environment = {"SFIO_LISTENERS": ",".join(addresses), "SFIO_TIMEOUT_S": "100"}
        self._clients = {host: self._start_client(host) for host in CLIENT_HOSTS}

    def _start_client(self, host: str) -> Any:
        name = ";".join(f"{listener}/{host}" for listener in LISTENER_HOSTS)
        return self._session.popen(
            host,
            [sys.executable, "-P", "-c", CLIENT, name],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def write_file(self, host: str) -> str:
        """Have the program of a host write and read a file once.

        A program that has ended is started again.

        Raises:
            ValueError: The program has ended, or a byte is wrong.
        """
        client = self._clients[host]
        # The end of the program is noticed below, because it does not answer.
        with suppress(BrokenPipeError):
            client.stdin.write("\n")
            client.stdin.flush()
        answer = client.stdout.readline()
        if not answer:
            client.wait()
            self._clients[host] = self._start_client(host)
            raise ValueError(f"the program in {host} ended with exit code {client.returncode}")
        if json.loads(answer):
            raise ValueError(f"{answer.strip()} wrong bytes in a striped file")
        return "passed"


def run_stream(session: Any, number: int) -> str:
    """Run a stream whose source has two links that fail, and return the outcome."""
    source, sink = [("s1", "s6"), ("s2", "s5"), ("s4", "s8")][number % 3]
    names = [
        f"{link.source}->{link.target}" for link in session.network.links if link.source == source
    ]
    faults = [f"{names[0]}@1.5-3", f"{names[1]}@4-5.5"]
    outcome = session.stream(source, sink, faults=faults, duration_s=7, rate_pps=50, playback_s=2.0)
    return outcome_text(outcome)


def run_bulk(session: Any, number: int) -> str:
    """Run a liquid bulk transfer between as many hosts as two processors support."""
    pairs = []
    for group in range(4):
        for distance in (1, 2):
            receiver = (8 * (group + distance) + number) % 32
            pairs.append((f"t{8 * group}", f"r{receiver}"))
    try:
        outcome = session.bulk(pattern=pairs, message_bytes=150_000, inject_packets=5)
    except InvalidRunError as error:
        print(f"invalid: {error}", file=sys.stderr, flush=True)
        return "invalid, not past calibration"
    text = outcome_text(outcome)
    if outcome.document["verified"]:
        text += ", every message verified"
    return text


def outcome_text(outcome: Any) -> str:
    """Return the outcome of a run.

    Raises:
        ValueError: The run failed.
    """
    if outcome.verdict.invalid is not None:
        print(f"invalid: {outcome.verdict.invalid}", file=sys.stderr, flush=True)
        return "invalid"
    if not outcome.passed:
        raise ValueError(f"failed: {json.dumps(outcome.verdict.to_json()['failed'])[:400]}")
    return "passed"


def fail_and_repair(session: Any, number: int) -> str:
    """Let a cable fail, repair it, and ping over it both times."""
    link = "s1->s2"
    kind = "blackhole" if number % 2 else "down"
    session.fail(link, kind)
    received_broken = session.ping("s1", "s2", wait_s=0.5).received
    session.restore(link)
    received_repaired = session.ping("s1", "s2", wait_s=10).received
    if received_broken or not received_repaired:
        raise ValueError(
            f"{received_broken} of 3 echoes over the broken cable, "
            f"{received_repaired} over the repaired one"
        )
    return "passed"


def rule_count(session: Any) -> int:
    """Return the number of OpenFlow rules in all switches."""
    script = (
        "for b in $(ovs-vsctl list-br); do ovs-ofctl -O OpenFlow13 dump-flows $b; done "
        "| grep -c table="
    )
    return int(session.exec("s1", ["sh", "-c", script]).stdout)


def descendants() -> list[int]:
    """Return the ids of this process and of all processes below it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(stat[1])
    result = []
    for pid in parents:
        ancestor = pid
        while ancestor not in (0, os.getpid()):
            ancestor = parents.get(ancestor, 0)
        if ancestor:
            result.append(pid)
    return result


def kind_of(folder: Path) -> str:
    """Return the kind of a process from its command line."""
    command = (folder / "cmdline").read_bytes().decode(errors="replace")
    for part, kind in KINDS.items():
        if part in command:
            return kind
    return "others"


def kilobytes_of(path: Path, field: str) -> int | None:
    """Return a field of a file in /proc in kilobytes, or None if it is missing."""
    for line in path.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return None


def current_usage() -> Sample:
    """Return what this process and all processes below it use.

    Memory is anonymous memory by kind of process. Files that programs map are not counted, because
    their share depends on other programs that map them.
    """
    counts: Counter[str] = Counter()
    memory_mb: dict[str, float] = {}
    network_namespaces = set()
    for pid in descendants():
        folder = Path(f"/proc/{pid}")
        try:
            kind = kind_of(folder)
            kilobytes = kilobytes_of(folder / "smaps_rollup", "Pss_Anon:")
            if kilobytes is None:
                continue
            namespace = str((folder / "ns" / "net").readlink())
            if namespace not in network_namespaces:
                network_namespaces.add(namespace)
                # The table has two lines of headings.
                counts["interfaces"] += len((folder / "net" / "dev").read_text().splitlines()) - 2
            counts["threads"] += len(list((folder / "task").iterdir()))
            counts["descriptors"] += len(list((folder / "fd").iterdir()))
        except OSError:
            # The process has ended.
            continue
        counts["processes"] += 1
        memory_mb[kind] = memory_mb.get(kind, 0.0) + kilobytes / 1e3
    slab_kilobytes = kilobytes_of(Path("/proc/meminfo"), "SUnreclaim") or 0
    return {
        **counts,
        "mb": {kind: round(mb, 2) for kind, mb in sorted(memory_mb.items())},
        "machine_slab_mb": round(slab_kilobytes / 1e3, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def with_leak(sample: Sample, *, descriptors: int = 1, mb: float = 0.1) -> Sample:
    """Return a sample as if every round had leaked descriptors and memory in the caller.

    Args:
        sample: The sample.
        descriptors: Descriptors that each round leaks.
        mb: Megabytes that each round leaks.
    """
    rounds = 0
    for outcome, count in sample["done"].items():
        if outcome.startswith("bulk"):
            rounds += count
    memory_mb = dict(sample["mb"])
    if "caller" in memory_mb:
        memory_mb["caller"] += mb * rounds
    leaked_descriptors = sample["descriptors"] + descriptors * rounds
    return {**sample, "descriptors": leaked_descriptors, "mb": memory_mb}


def curves_of(samples: Sequence[Sample]) -> dict[str, np.ndarray]:
    """Return the values of each curve, one per sample."""
    curves = {}
    for name in COUNTS:
        if name in samples[0]:
            curves[name] = np.array([float(sample[name]) for sample in samples])
    kinds: set[str] = set()
    for sample in samples:
        kinds.update(sample["mb"])
    for kind in sorted(kinds):
        curves[f"MB of {kind}"] = np.array([sample["mb"].get(kind, np.nan) for sample in samples])
    return curves


def judge(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """Judge the growth of each curve.

    Returns:
        For each curve, its first and last value, its slope per hour, half the width of the slope's
        interval, and the conclusion: "flat", "grows" or "undecided".
    """
    first_judged_s = samples[-1]["t_s"] / 4
    quiet = [
        sample for sample in samples if sample.get("quiet") and sample["t_s"] >= first_judged_s
    ]
    hours = np.array([sample["t_s"] for sample in quiet]) / 3600
    result = {}
    for name, values in curves_of(quiet).items():
        finite = np.isfinite(values)
        finite_values = values[finite]
        slope, half = slope_of(hours[finite], finite_values)
        result[name] = {
            "first": finite_values[0],
            "last": finite_values[-1],
            "slope": slope,
            "half": half,
            "say": conclusion(slope, half),
        }
    return result


def conclusion(slope: float, half: float) -> str:
    """Return the conclusion from a slope and half the width of its interval."""
    if slope + half < MAX_GROWTH:
        return "flat"
    if slope - half > 0 and slope > MAX_GROWTH:
        return "grows"
    return "undecided"


def slope_of(times: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return the slope by least squares, and half the width of its 95 % interval.

    If successive residuals are correlated, the number of independent samples is smaller.
    """
    deviations = times - times.mean()
    squares = deviations @ deviations
    slope = float(deviations @ values / squares)
    residuals = values - values.mean() - slope * deviations
    if not residuals.any():
        return slope, 0.0
    correlation = max(0.0, float(residuals[1:] @ residuals[:-1] / (residuals @ residuals)))
    independent = max(3.0, len(times) * (1 - correlation) / (1 + correlation))
    variance = residuals @ residuals / (independent - 2)
    return slope, float(1.96 * np.sqrt(variance / squares))


def write_picture(samples: Sequence[Sample], path: Path) -> None:
    """Write an SVG of the curves."""
    from testbed.report.drawing.svg_figures import figures_with_text

    path.write_bytes(figures_with_text("soak", partial(draw, samples))["soak"].svg)


def draw(samples: Sequence[Sample]) -> dict[str, Any]:
    """Draw the quiet samples over time; the descriptors of the other samples are pale."""
    from testbed.report.drawing.charts import HUES, panels

    quiet = [sample for sample in samples if sample.get("quiet")]
    busy = [sample for sample in samples if not sample.get("quiet")]
    quiet_curves = curves_of(quiet)
    memory_names = tuple(name for name in quiet_curves if name not in COUNTS)
    figure, axes = panels(8, 7, 3, sharex=True)
    for axis, names in zip(axes, (COUNTS[:2], COUNTS[2:], memory_names), strict=True):
        for hue, name in zip(HUES, names, strict=False):
            axis.plot(hours_of(quiet), quiet_curves[name], color=hue, label=name)
            if name == "descriptors":
                busy_values = curves_of(busy)[name]
                axis.plot(hours_of(busy), busy_values, color=hue, linewidth=0.6, alpha=0.4)
        # Room for the legend.
        axis.set(ylim=(0, 1.3 * axis.get_ylim()[1]))
        axis.locator_params(axis="y", nbins=4)
        axis.legend(loc="upper right", ncols=4)
    axes[-1].set(xlabel="hours")
    return {"soak": figure}


def hours_of(samples: Sequence[Sample]) -> list[float]:
    return [sample["t_s"] / 3600 for sample in samples]


if __name__ == "__main__":
    sys.exit(main())
