"""The overlap of a slow disk with a slow network during a write (Gabrielyan 2007, section 2.3)."""

import tempfile
from pathlib import Path

from experiments.sfio.accesses.ablation import WORTH
from experiments.sfio.runs import measure_access, verdict_of_runs
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    grid,
    where,
)
from testbed.report.drawing.charts import draw_bars

# Rate of a slow link or disk, and of a fast link.
RATE_BPS = 20e6
FAST_BPS = 400e6

FILE_BYTES = 10_000_000
QUICK_FILE_BYTES = 5_000_000
STRIPE_UNIT = 200
BLOCK_BYTES = 5000
# Size of the disk.
DISK_BYTES = 64 << 20

# What is slow.
SLOW = {"network": "slow network alone", "disk": "slow disk alone", "both": "both slow"}
# Whether several messages may be in transit to an I/O node.
WINDOWS = {True: "pipelined", False: "one message at a time"}

# Smallest accepted overlap of pipelined writes, as a share of the shorter one of network and disk.
MIN_OVERLAP = 0.5

# Smallest accepted difference of this overlap from that of one message at a time.
MIN_OVERLAP_GAIN = 0.25


def points(quick: bool, seed: int) -> Points:
    """Return the points: a slow network, a slow disk or both, each pipelined and not."""
    size = QUICK_FILE_BYTES if quick else FILE_BYTES
    return grid(pipelined=WINDOWS, slow=SLOW, file_bytes=size, seed=seed)


def measure(point: Row) -> Results:
    """Measure a write of random blocks by one process to one I/O node with a disk of its own."""
    from testbed.striping.emulated.paced_disk import paced_disk

    disk_bytes_per_s = None if point["slow"] == "network" else RATE_BPS / 8
    with tempfile.TemporaryDirectory(prefix=".disk-", dir=Path.cwd()) as folder:
        mount_point = Path(folder) / "mounted"
        mount_point.mkdir()
        with paced_disk(mount_point, DISK_BYTES, disk_bytes_per_s):
            return measure_access(
                "crossbar:2",
                point,
                folder=mount_point,
                nodes=1,
                stripe_unit=STRIPE_UNIT,
                access="random",
                access_block_bytes=BLOCK_BYTES,
                disable=() if point["pipelined"] else ("pipeline",),
                link_rate_bps=FAST_BPS if point["slow"] == "disk" else RATE_BPS,
            )


def _seconds(rows: Rows, pipelined: bool) -> dict[str, float]:
    """Return the duration of the pipelined or other writes by what is slow, in seconds."""
    return {row["slow"]: row["seconds"] for row in where(rows, pipelined=pipelined)}


def overlapped(rows: Rows, pipelined: bool) -> float:
    """Return the share of the shorter duration (network or disk) that the overlap saves.

    It is 0 if one follows the other, and 1 if they overlap completely.
    """
    seconds = _seconds(rows, pipelined)
    saved_s = seconds["network"] + seconds["disk"] - seconds["both"]
    return float(saved_s / min(seconds["network"], seconds["disk"]))


def window_gain(rows: Rows) -> float:
    """Return the throughput of pipelined writes over that of one message at a time.

    Both are measured with a slow network and a slow disk.
    """
    return float(_seconds(rows, pipelined=False)["both"] / _seconds(rows, pipelined=True)["both"])


def judge(rows: Rows) -> Verdict:
    """Check that network and disk work at the same time, and that both were slow."""
    overlap = overlapped(rows, pipelined=True)
    overlap_gain = overlap - overlapped(rows, pipelined=False)
    checks = (
        Claim("share of the shorter of network and disk that cost no time, pipelined")
        .at_least(MIN_OVERLAP, overlap)
        .cites(
            "disk and network are overlapped, resulting in additional performance gain, "
            "section 2.3 (no value)"
        )
        .against(0.0, "one after the other"),
        Claim("share that cost no time, pipelined, less that of one message at a time")
        .at_least(MIN_OVERLAP_GAIN, overlap_gain)
        .cites("accesses to the network and disks are made asynchronously, section 2.3")
        .against(0.0, "the window of messages is worth nothing"),
        Claim(
            "both slow: throughput with the window of messages over that of one message at a time"
        )
        .at_least(WORTH, window_gain(rows))
        .cites("optimisations of network and disk accesses, section 2.6 (no value for each)")
        .against(1.0, "worth nothing"),
        _disk_rate_check(rows),
    )
    return verdict_of_runs(rows, checks)


def _disk_rate_check(rows: Rows) -> Check:
    """Check that the slow disk has its rate; the rival is the rate of the fast link."""
    seconds = _seconds(rows, pipelined=True)
    file_bits = rows[0]["file_bytes"] * 8
    relative_disk_rate = file_bits / seconds["disk"] / RATE_BPS
    relative_fast_rate = file_bits / seconds["network"] / RATE_BPS * FAST_BPS / RATE_BPS
    return (
        Claim("slow disk alone: rate over the one it was given")
        .equal(1.0, relative_disk_rate, 0.15)
        .against(relative_fast_rate, "a disk that was not slowed down: the fast link's rate")
    )


def figures(rows: Rows) -> Figures:
    """Draw the duration of each write, and the sum of the durations of network and disk alone."""
    samples = {}
    for row in rows:
        samples[SLOW[row["slow"]], WINDOWS[row["pipelined"]]] = (row["seconds"], 0.0)
    for pipelined, name in WINDOWS.items():
        seconds = _seconds(rows, pipelined)
        sum_s = seconds["network"] + seconds["disk"]
        samples["sum of the two alone", name] = (sum_s, 0.0)
    figure = draw_bars(
        "Writing over a link of 20 Mbit/s to a disk of 20 Mbit/s", samples, y="seconds"
    )
    figure.axes[0].set_xlabel("messages under way")
    return {"overlap": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_overlap",
    title="Network and disk at the same time",
    answers="Gabrielyan 2007, section 2.3: "
    "disk and network communications are overlapped, resulting in additional performance gain",
    deviations=(
        "the disk is a loop device throttled by the kernel's block layer (20 Mbit/s); every write "
        "waits for it",
        "one process, one I/O node, 10 MB (5 MB with --quick) in random blocks of 5000 bytes; "
        "the network as slow as the disk, which shows an overlap best; the document gives no value",
    ),
    emulation=True,
)
