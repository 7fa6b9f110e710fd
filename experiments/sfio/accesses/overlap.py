"""A slow disk behind a slow network: how far a write overlaps the two (Gabrielyan 2007, section 2.3)."""

import tempfile
from pathlib import Path

from experiments.sfio.accesses.ablation import WORTH
from experiments.sfio.runs import accessed, judged
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, grid
from testbed.report.drawing.charts import draw_bars

RATE_BPS, FAST_BPS = 20e6, 400e6
"""Of what is slow: the link, or the disk, the same; and of a link that is not."""
FILE_BYTES, QUICK_FILE_BYTES = 10_000_000, 5_000_000
STRIPE_UNIT, BLOCK_BYTES = 200, 5000
DISK_BYTES = 64 << 20
SLOW = {"network": "slow network alone", "disk": "slow disk alone", "both": "both slow"}
WINDOWS = {True: "pipelined", False: "one message at a time"}
MIN_OVERLAP = 0.5


def points(quick: bool, seed: int) -> Points:
    """Network slow, disk slow, both; with the window of messages and without."""
    return grid(
        pipelined=WINDOWS,
        slow=SLOW,
        file_bytes=QUICK_FILE_BYTES if quick else FILE_BYTES,
        seed=seed,
    )


def measure(point: Row) -> Results:
    """One process writes random blocks to one I/O node, whose subfile is on a disk of its own."""
    from testbed.striping.emulated.paced_disk import paced_disk

    with tempfile.TemporaryDirectory(prefix=".disk-", dir=Path.cwd()) as folder:
        place = Path(folder) / "mounted"
        place.mkdir()
        with paced_disk(place, DISK_BYTES, None if point["slow"] == "network" else RATE_BPS / 8):
            file = {
                "stripe_unit": STRIPE_UNIT,
                "access": "random",
                "access_block_bytes": BLOCK_BYTES,
            }
            disable = () if point["pipelined"] else ("pipeline",)
            rate_bps = FAST_BPS if point["slow"] == "disk" else RATE_BPS
            how: Results = {**file, "disable": disable, "link_rate_bps": rate_bps}
            return accessed("crossbar:2", point, place=place, nodes=1, **how)


def overlapped(rows: Rows, pipelined: bool) -> float:
    """The share of the shorter part that cost no time: 0 one after the other, 1 all at once."""
    s = {row["slow"]: row["seconds"] for row in rows if row["pipelined"] is pipelined}
    shorter: float = min(s["network"], s["disk"])
    return float(s["network"] + s["disk"] - s["both"]) / shorter


def window_gain(rows: Rows) -> float:
    """What the window of messages is worth where network and disk are slow: times the throughput without."""
    s = {row["pipelined"]: row["seconds"] for row in rows if row["slow"] == "both"}
    return float(s[False] / s[True])


def judge(rows: Rows) -> Verdict:
    """Network and disk work at the same time; and both were slow."""
    s = {row["slow"]: row["seconds"] for row in rows if row["pipelined"]}
    size = rows[0]["file_bytes"] * 8
    fast = size / s["network"] / RATE_BPS * FAST_BPS / RATE_BPS
    checks = (
        Claim("share of the shorter of network and disk that cost no time, pipelined")
        .at_least(MIN_OVERLAP, overlapped(rows, True))
        .cites(
            "disk and network are overlapped, resulting in additional performance gain, section 2.3 (no value)"
        )
        .against(0.0, "one after the other"),
        Claim("share that cost no time, pipelined, less that of one message at a time")
        .at_least(0.25, overlapped(rows, True) - overlapped(rows, False))
        .cites("accesses to the network and disks are made asynchronously, section 2.3")
        .against(0.0, "the window of messages is worth nothing"),
        Claim(
            "both slow: throughput with the window of messages over that of one message at a time"
        )
        .at_least(WORTH, window_gain(rows))
        .cites("optimisations of network and disk accesses, section 2.6 (no value for each)")
        .against(1.0, "worth nothing"),
        Claim("slow disk alone: rate over the one it was given")
        .equal(1.0, size / s["disk"] / RATE_BPS, 0.15)
        .against(fast, "a disk that was not slowed down: the fast link's rate"),
    )
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Seconds of each, and what the sum of both would be."""
    samples = {
        (SLOW[row["slow"]], WINDOWS[row["pipelined"]]): (row["seconds"], 0.0) for row in rows
    }
    for words in WINDOWS.values():
        alone = (samples[SLOW[slow], words][0] for slow in ("network", "disk"))
        samples["sum of the two alone", words] = sum(alone), 0.0
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
        "the disk is a loop device throttled by the kernel's block layer (20 Mbit/s); every write waits for it",
        "one process, one I/O node, 10 MB (5 MB with --quick) in random blocks of 5000 bytes; "
        "the network as slow as the disk, which shows an overlap best; the document gives no value",
    ),
    emulation=True,
)
