"""IOR's patterns of access, striped by SFIO over loopback, next to one request a fragment and beside ROMIO on a local
file."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.sfio import ior_process
from experiments.sfio.runs import judged
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, grid, where
from testbed.report.drawing.charts import AMBER, BLUE, GREEN, GREY, panels

PATTERNS = ("segmented", "strided", "random", "file per process")
DIRECTIONS = {
    "SFIO": BLUE,
    "SFIO, one request a fragment": GREY,
    "ROMIO, collective buffering": AMBER,
    "ROMIO, data sieving": GREEN,
}
BLOCKS, QUICK_BLOCKS = (200, 1000, 4096), (1000,)
PROCESSES, LISTENERS = 4, 3
BYTES_EACH, QUICK_BYTES_EACH = 8 << 20, 2 << 20
FRAGMENTS_EACH = 400  # of the way that needs a message for each
REPEAT = 3
MIN_GAIN, MIN_OF_SEGMENTED = 5.0, 0.1


def points(quick: bool, seed: int) -> Points:
    """Every pattern by every way, in blocks of some sizes."""
    blocks, size = (QUICK_BLOCKS, QUICK_BYTES_EACH) if quick else (BLOCKS, BYTES_EACH)
    return grid(block_bytes=blocks, pattern=PATTERNS, way=DIRECTIONS, bytes_each=size, seed=seed)


def measure(point: Row) -> Results:
    """Medians of some runs: MB that are moved in a second, and in a second of processor time of all that take part."""
    from testbed.striping.emulated.scratch_folders import scratch_folder

    blocks = point["bytes_each"] // point["block_bytes"]
    if point["way"] == "SFIO, one request a fragment":
        blocks = min(blocks, FRAGMENTS_EACH)
    size = blocks * point["block_bytes"] * PROCESSES
    place = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())
    runs = []
    for _ in range(REPEAT):
        with scratch_folder(place) as root:
            task = {"pattern": point["pattern"], "way": point["way"], "block_bytes": point["block_bytes"],
                    "blocks": blocks, "file": f"{root}/romio"}  # fmt: skip
            runs.append(_by_romio(task) if point["way"].startswith("ROMIO") else _by_sfio(task, root))
    row: Results = {"bytes": size, "verified": all(run["verified"] for run in runs), "invalid": None}
    for name in ("write", "read"):
        row[f"{name}_mb_s"] = size / 1e6 / statistics.median(run[f"{name}_s"] for run in runs)
        row[f"{name}_mb_cpu_s"] = size / 1e6 / statistics.median(run[f"{name}_cpu_s"] for run in runs)
    if "messages" in runs[0]:
        row["fragments_a_message"] = blocks * PROCESSES / runs[0]["messages"]
    return row


@contextmanager
def listener_processes(root: Path) -> Iterator[tuple[str, list[int]]]:
    """Three listener processes: their addresses as SFIO_LISTENERS has them, and their process ids."""
    with ExitStack() as stack:
        addresses, ids = [], []
        for number in range(1, LISTENERS + 1):
            (root / f"p{number}").mkdir()
            listener = [sys.executable, "-m", "sfio_emu.adapters.listener"]
            words = [*listener, "--root", str(root), "--listen", f"p{number}@127.0.0.1:0"]
            process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            addresses.append(process.stdout.readline().split()[-1].replace("@", "="))
            ids.append(process.pid)
        yield ",".join(addresses), ids


def _by_sfio(task: Row, root: Path) -> Results:
    from sfio_emu.adapters.peers.group_server import GroupServer

    with listener_processes(root) as (addresses, ids), GroupServer(f"unix:{root}/group", PROCESSES) as server:
        common = {"SFIO_SIZE": str(PROCESSES), "SFIO_GROUP": server.address, "SFIO_LISTENERS": addresses,
                  "SFIO_TIMEOUT_S": "30", "IOR_SERVERS": " ".join(map(str, ids))}  # fmt: skip
        words = [sys.executable, str(ior_process.__file__), json.dumps(task)]
        settings = [{**os.environ, **common, "SFIO_RANK": str(rank)} for rank in range(PROCESSES)]
        ranks = [subprocess.Popen(words, env=own, stdout=subprocess.PIPE, text=True) for own in settings]
        outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise RuntimeError(f"a process of {task['way']}, {task['pattern']}, failed")
    return dict(json.loads(outputs[0]))


def _by_romio(task: Row) -> Results:
    from testbed.striping.emulated.mpi_launcher import find_mpiexec

    words = [str(find_mpiexec()), "-n", str(PROCESSES), sys.executable, str(ior_process.__file__), json.dumps(task)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def judge(rows: Rows) -> Verdict:
    """What aggregation gains in each pattern, and what blocks that do not adjoin cost. ROMIO is shown, and not
    judged."""
    found = {(row["block_bytes"], row["pattern"], row["way"]): row for row in rows}
    checks = []
    for (block, pattern, way), row in found.items():
        if way != "SFIO":
            continue
        plain, segmented = found[block, pattern, "SFIO, one request a fragment"], found[block, "segmented", "SFIO"]
        for name in ("write", "read"):
            key = f"{name}_mb_cpu_s"
            speed = f"{name}, {pattern}, blocks of {block} bytes: bytes a second of processor time"
            checks.append(
                Claim(f"{speed} over those of one request a fragment")
                .at_least(MIN_GAIN, row[key] / plain[key])
                .cites("significant gain, Gabrielyan 2007, section 2.6")
                .against(1.0, "no gain")
            )
            if pattern in ("strided", "random"):
                check = Claim(f"{speed} over those of segments").at_least(MIN_OF_SEGMENTED, row[key] / segmented[key])
                checks.append(check.against(plain[key] / segmented[key], "one request a fragment"))
    return judged(rows, checks, notes=("ROMIO works on a local file: a bound without a network.",))


def figures(rows: Rows) -> Figures:
    """Bars: a group for each pattern, a bar for each way, of the middle block size."""
    sizes = sorted({row["block_bytes"] for row in rows})
    block = sizes[len(sizes) // 2]
    figure, both = panels(11, 4.6, columns=2, sharey=True)
    for axes, name in zip(both, ("write", "read"), strict=True):
        for place, (way, colour) in enumerate(DIRECTIONS.items()):
            chosen = {r["pattern"]: r[f"{name}_mb_cpu_s"] for r in where(rows, way=way, block_bytes=block)}
            label = f"{way} (local file)" if way.startswith("ROMIO") else way
            at = [n + 0.2 * (place - 1.5) for n in range(len(PATTERNS))]
            axes.bar(at, [chosen[p] for p in PATTERNS], 0.18, color=colour, label=label)
        axes.set_xticks(range(len(PATTERNS)), PATTERNS)
        title, y = f"{name}, blocks of {block} bytes", "MB a second of processor time"
        axes.set(yscale="log", xlabel="pattern", ylabel=y, title=title)
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return {"ior_patterns": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_ior_patterns",
    title="IOR's patterns of access beside ROMIO",
    answers="Gabrielyan 2007, section 2.6: many small blocks in one call, against one request a fragment",
    deviations=(
        "Over loopback on one machine; judged by processor time of all processes, as wall-clock time is the machine's.",
        "ROMIO works on a local file: a bound without a network, shown beside and not judged.",
        "One request a fragment: 400 blocks of each process, since each takes a round trip however many there are.",
    ),
)
