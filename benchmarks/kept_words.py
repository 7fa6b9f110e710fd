"""Writes docs/guide/kept_words.md: what commands said to a new user before and say now, each with its exit code.

    git worktree add BEFORE c6e911c^ && python benchmarks/kept_words.py --before BEFORE --answers FILE

Every command is run in both versions, in an empty directory, with the interpreter that runs this script; nothing is written by hand. It
takes some five minutes. What is certain of the answers of today is held by tests (tests/testbed/commands/).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "kept_words.md"
SWISS = "swiss-t1 --from s1 --to s6"
SIMULATED = f"stream {SWISS} --fabric simulator"
TRIANGLE = """{"directed": false, "multigraph": false, "graph": {"name": "three"}, "nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}],
 "links": [{"source": "a", "target": "b"%s}, {"source": "b", "target": "c"%s}, {"source": "c", "target": "a"%s}]}"""
FILES = {
    "typo.json": TRIANGLE % ((', "capacity": 5e6, "delay": 0.01',) * 3),
    "slow.json": TRIANGLE % ((', "capacity_bps": 1e7, "delay_s": 0.005',) * 3),
    "faults.json": '[{"link": "s1->s2", "kind": "down", "start_s": 2, "stop_s": 3}]',
    "name.py": "import socket; print(socket.gethostname())\n",
}
TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Case:
    """``words``: of one or more testbed commands, one after another (the last one counts); ``interrupt_s``: Ctrl-C so long after the start;
    ``shown``: what of the output to show, a regular expression of lines."""

    item: int
    words: tuple[str, ...]
    interrupt_s: float | None = None
    shown: str = ""
    full: bool = False


CASES = (
    Case(1, ("topology show typo.json",), shown="capacity"),
    Case(2, (f"stream {SWISS} --method ecmp --routing ft-drb",), shown="ft-drb|verdict"),
    Case(2, (f"{SIMULATED} --faults faults.json --fault-kind blackhole",)),
    Case(2, (f"{SIMULATED} --faults none --links 3",)),
    Case(2, (f"{SIMULATED} --probe-link s1->s2 --faults none",)),
    Case(2, (f"{SIMULATED} --fault-loss 2",)),
    Case(2, ("sfio crossbar:4 --compute-nodes 2 --io-nodes 2 --file-size 400kB --kill r1@300",), shown="fault|kill|verdict|cannot|never"),
    Case(3, ("bulk swiss-t1:allocation=2-2-2-2-0-0-0-0 --link-rate 900Mbps --message-size 3MB --alone",), shown="verdict"),
    Case(4, (f"{SIMULATED} --duration nan",)),
    Case(4, (f"{SIMULATED} --duration 1e9",)),
    Case(4, (f"{SIMULATED} --seed {10**23}",)),
    Case(5, (f"{SIMULATED} --faults none --duration 20000",), interrupt_s=6),
    Case(5, ("campaign thousands",), interrupt_s=8),
    Case(5, (f"route {SWISS}",), full=True),
    Case(6, (f"ror {SWISS}",), shown="ROR"),
    Case(6, (f"{SIMULATED} --links 16",), shown="ROR"),
    Case(7, ("schedule crossbar:3 --pattern all-to-others --output s.json", "bulk crossbar:3 --schedule s.json --fabric simulator"), shown="verdict|frames"),
    Case(8, ("simulate torus:4x4 --rates 0.1:0.5:0.2 --duration 0.001 --results r",), shown="page|verdict"),
    Case(9, ("stream slow.json --from a --to b --links 1",), shown="simulat|netem|delay"),
    Case(9, (f"stream {SWISS} --tolerence 0.1",)),
    Case(9, ("run crossbar:3 --compute-nodes 1 --io-nodes 1 python name.py",)),
    Case(9, ("run crossbar:3 --compute-nodes 1 --io-nodes 1 -- python name.py",)),
    Case(9, ("--print-completion bash",)),
)  # fmt: skip


def answer(case: Case, tree: Path) -> tuple[int, str, float]:
    """Exit code, what is shown of the output, seconds, of the last command of the case in that version."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            Path(folder, name).write_text(text)
        for words in case.words:
            began_s = time.monotonic()
            code, text = run(words, case, tree, folder)
            seconds = time.monotonic() - began_s
    text = (
        re.sub(r"testbed: compil[^\n]*\n", "", text).replace(folder, "").replace(str(tree), "").replace(sys.prefix, "")
    )
    return code, shown(text, case.shown), seconds


def run(words: str, case: Case, tree: Path, folder: str) -> tuple[int, str]:
    with ExitStack() as stack:
        output = stack.enter_context(open("/dev/full", "w")) if case.full else subprocess.PIPE
        return _run(words, case, tree, folder, output)


def _run(words: str, case: Case, tree: Path, folder: str, output: Any) -> tuple[int, str]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "testbed.cli", *words.split()],
        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # who starts this may have had it ignored
        env=os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "100", "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"},
    )  # fmt: skip
    try:
        if case.interrupt_s is not None:
            time.sleep(case.interrupt_s)
            os.killpg(child.pid, signal.SIGINT)
        out, said = child.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return -1, f"still running after {TIMEOUT_S:.0f} s"
    return child.returncode, (said or "") + (out or "")


def shown(text: str, wanted: str) -> str:
    """The lines that match, else the first and the last one and how many there are."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    found = [line for line in lines if wanted and re.search(wanted, line)][:2]
    if found:
        return " / ".join(line[:180] for line in found)
    if len(lines) <= 2:
        return " / ".join(line[:220] for line in lines) or "(nothing)"
    return f"{len(lines)} lines, the last: {lines[-1][:160]}"


OPTIONS = (
    "All numeric options of all commands (4) are tried by a test with hostile values (nan, infinities, 5000 digits, the numbers next to each bound, ...): 2998 calls over 125 options on "
    "23 November 2026, each refused in one line, exit code 2, in less than a second of processor time (`tests/testbed/commands/test_hostile_numbers.py`).\n\n"
)
"""What the last run of that test printed."""


def page(rows: list[tuple[Case, str, str]], before: str, now: str) -> str:
    """The whole page."""
    head = (
        "# Errors and interruptions: before and now\n\n"
        "After this page you know how the testbed reacts to mistyped options and files, impossible requests, Ctrl-C and a full disk, and what it did before. "
        f"Each command was run in an older version ({before}) and in a newer one ({now}).\n\n"
        "    $ python benchmarks/kept_words.py --before BEFORE --answers FILE\n\n"
        "repeats the comparison and writes this page. Exit codes: 0 done and passed, 1 failed, 2 bad input, 3 the machine lacks something, 4 the machine could not keep up, 5 the measurement cannot tell, 130 Ctrl-C. Of a long "
        "output the page shows the line that matters, or the last one. The first column gives the subject of a row: unknown keys (1), options that were silently ignored (2), a busy machine "
        "distinguished from a failure (3), numbers (4), Ctrl-C and a full disk (5), one definition of ROR (6), schedules carried out (7), simulations that are stored (8), help where it is needed (9).\n\n"
        f"The machine had {os.cpu_count()} processors and, at the end, a load average of {os.getloadavg()[2]:.0f} by other programs, so the times are long. Those of an "
        "interrupted command include the 6 or 8 seconds before Ctrl-C. Whether the change of subject 3 shows depends on what else the machine does: at the rate used here both versions "
        "notice that the machine is too slow.\n\n" + OPTIONS + "| | command | before | now |\n|---|---|---|---|\n"
    )
    body = []
    for case, old, new in rows:
        words = "; ".join(f"`testbed {w.replace('|', chr(92) + '|')}`" for w in case.words)
        words += ", then Ctrl-C" if case.interrupt_s else " `> /dev/full`" if case.full else ""
        body.append(f"| {case.item} | {words} | {old} | {new} |")
    return head + "\n".join(body) + "\n"


def cell(found: tuple[int, str, float]) -> str:
    code, text, seconds = found
    ended = "had to be killed" if code == -1 else f"exit {code}"
    clean = text.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
    return f"**{ended}** after {seconds:.1f} s: {clean}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="a work tree of the version before")
    parser.add_argument(
        "--answers", type=Path, required=True, help="a file that keeps the answers: what is in it is not asked again"
    )
    args = parser.parse_args()
    names = [
        subprocess.run(
            ["git", "-C", tree, "log", "-1", "--format=%h of %cs"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for tree in (args.before, ROOT)
    ]
    known = {}
    if args.answers.exists():
        known = {tuple(words): (old, new) for words, old, new in map(json.loads, args.answers.read_text().splitlines())}
    rows = []
    for case in CASES:
        if case.words not in known:
            known[case.words] = (cell(answer(case, args.before.resolve())), cell(answer(case, ROOT)))
            with args.answers.open("a") as file:
                file.write(json.dumps([case.words, *known[case.words]]) + "\n")
            print(case.words[-1], *known[case.words], sep="\n    ", file=sys.stderr, flush=True)
        rows.append((case, *known[case.words]))
    PAGE.write_text(page(rows, *names), encoding="utf-8")


if __name__ == "__main__":
    main()
