"""``testbed replicate``: every study one after the other, as far as it is not stored yet, then the book of what is
stored."""

import argparse
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from testbed.commands.answer import Answer, start_live
from testbed.commands.arguments import JsonOptions, LiveOptions, add_options, adder
from testbed.commands.several_machines import DaskOptions, TlsOptions, security_of, tls_words
from testbed.commands.studies.book import book_chapters, pack_runs, register_of, write_book
from testbed.commands.studies.experiment import chapters, find_experiments, known_experiment
from testbed.emulation.sandbox.process_lifetime import ENDS_WITH_PARENT
from testbed.live.adapters.feed import PointsPage, live_feed
from testbed.live.events import InterimResults
from testbed.model.options import kinds
from testbed.model.options.option import RUN, RUNNING, Only
from testbed.model.progress import Progress
from testbed.model.stored_runs import StoredRun, representative_run
from testbed.report.column_units import seconds_in_words
from testbed.report.progress_bar import progress_bar
from testbed.report.register import Row, counts, counts_by_chapter, outcome_in_words
from testbed.results.study_store import STORED, is_study, load_study, stored_runs
from topologies.text.json_types import JsonObject

DESCRIPTION = (
    "Run every study that is not stored yet, those that are computed over all workers first, then those on the clock "
    "one at a time, shortest first by what they took before; then write the book. Killed at any moment, the same "
    "command goes on where it was. Exit code: 0 all stored and passed, 1 one failed, 5 one cannot tell, 4 one is "
    "invalid or was left."
)
ATTEMPTS = {"full": 3, "quick": 2}
"""How often a study is run whose run is invalid."""
GRACE_S = 30.0


@dataclass
class Replication:
    """What is to be run, where it is kept, and what could not be run (study -> the last line that it wrote)."""

    studies: Mapping[str, object]
    size: str
    root: Path
    seed: int
    words: list[str]
    broken: dict[str, str] = field(default_factory=dict)

    def runs(self, name: str) -> list[StoredRun]:
        """Those stored of this study, size and seed."""
        return [
            r
            for r in stored_runs(self.root, name)
            if (r.size, r.manifest.seed) == (self.size, self.seed)
        ]

    def left(self) -> list[str]:
        """Studies that have no run that says something and are to be tried (again)."""
        return [
            name for name in self.studies if name not in self.broken and self._open(self.runs(name))
        ]

    def _open(self, runs: Sequence[StoredRun]) -> bool:
        if any(run.state not in ("invalid", "unfinished") for run in runs):
            return False
        return sum(run.state == "invalid" for run in runs) < ATTEMPTS[self.size]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, running = adder(parser), adder(parser, RUN)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full", action="store_true", help="every study at its full size (default; many hours)"
    )
    size.add_argument("--quick", action="store_true", help="every study at its reduced size")
    add(
        "--chapter",
        type=kinds.any_whole,
        action="append",
        choices=(2, 3, 4, 5),
        help="only the studies of this chapter (repeatable)",
    )
    add("--only", action="append", metavar="NAME", help="only this study (repeatable)")
    add(
        "--max-hours",
        dest="hours",
        type=kinds.hours,
        metavar="HOURS",
        help="stop after this number of hours; stored runs remain",
        only=RUNNING,
    )
    running("--seed", type=kinds.seed, default=1, help="seed of every study (default 1)")
    add_options(parser, DaskOptions, TlsOptions)
    running(
        "--results",
        type=Path,
        help=f"directory for results (default: {STORED}, with --quick results/replication)",
    )
    add(
        "--claims",
        action="store_true",
        help="run nothing, list every claim of the documents and what checks say of it",
    )
    add(
        "--report-only",
        dest="book",
        action="store_true",
        help="run nothing, only write the book of what is stored",
    )
    add(
        "--compress",
        dest="pack",
        action="store_true",
        help="with --report-only: keep each whole run as one archive, RUN.zip, but for drawings of docs/replication",
        only=Only(when=lambda a: a.book, needs="what is stored, with --report-only"),
    )
    add_options(parser, JsonOptions, LiveOptions)


def run(args: argparse.Namespace) -> Answer:
    root = args.results or (Path("results/replication") if args.quick else STORED)
    replication = Replication(
        _chosen(args), "quick" if args.quick else "full", root, args.seed, _shared_words(args)
    )
    if args.claims:
        return _claims(root)
    start_live(args)
    if not args.book:
        deadline = None if args.hours is None else time.monotonic() + 3600 * args.hours
        _run_all(replication, deadline, quiet=args.json)
    if args.pack:
        pack_runs(root)
    index = write_book(root)
    return _closing(replication, index)


def _claims(root: Path) -> Answer:
    """The register of claims: the counts by chapter, every claim, and the studies that serve none."""
    rows = register_of(book_chapters(root))
    serving = {study for row in rows for study in row.studies}
    idle = [name for name in find_experiments() if name not in serving]
    listed = [one for row in rows for one in row.to_json()]
    document = {
        "claims": listed,
        "counts": counts_by_chapter(rows),
        "total": counts(rows),
        "idle": idle,
    }
    return Answer(document, partial(_print_claims, rows, idle))


def _print_claims(rows: Sequence[Row], idle: Sequence[str]) -> None:
    for row in rows:
        shown = ", ".join([*row.studies, *(one.command for one in row.shown if not one.study)])
        page = "" if row.page is None else f", page {row.page}"
        print(
            f"{row.document} {row.where}{page}: {row.claim}\n    {row.standing}; {outcome_in_words(row)}; {shown}"
        )
    for name, found in {**counts_by_chapter(rows), "all": counts(rows)}.items():
        print(f"{name}: " + ", ".join(f"{count} {words}" for words, count in found.items()))
    print(f"studies that serve no claim of the documents: {', '.join(idle) or 'none'}")


def _chosen(args: argparse.Namespace) -> dict[str, object]:
    for name in args.only or ():
        known_experiment(name)
    of = chapters()
    return {
        name: study
        for name, study in find_experiments().items()
        if (not args.only or name in args.only)
        and (not args.chapter or of.get(name) in args.chapter)
    }


def _shared_words(args: argparse.Namespace) -> list[str]:
    security_of(args)  # what is wrong with it is said before anything begins
    return (
        ["--dask", args.scheduler, *tls_words(args)]
        if args.scheduler
        else ["--workers", str(args.workers)]
    )


def _run_all(replication: Replication, deadline: float | None, quiet: bool) -> None:
    """Until nothing is left or the time is over. A study whose run is invalid has its next turn after all others,
    and then keeps the points that were valid."""
    total = len(replication.studies)
    if not quiet:
        print(_estimate(replication), flush=True)
    feed = live_feed()
    page = None if feed is None else PointsPage(feed, "Replication", lambda: _found(replication))
    with progress_bar("replicate") as show:
        for name in _in_turn(replication):
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return
            done = total - len(replication.left())
            if show is not None:
                show(Progress(done_s=done, total_s=total, doing=name))
            if page is not None:
                page.show(done, total, f"{done} of {total} studies; now {name}")
            line = _run_one(replication, name, remaining)
            if not quiet:
                print(line, flush=True)


def _found(replication: Replication) -> InterimResults:
    """How every study stands, for the live page."""
    states = {
        name: _state(replication, name, replication.runs(name)) for name in replication.studies
    }
    return InterimResults(
        outcomes=tuple((state.replace("-", " "), name) for name, state in states.items())
    )


def _in_turn(replication: Replication) -> Iterator[str]:
    for _ in range(ATTEMPTS[replication.size]):
        yield from sorted(replication.left(), key=lambda name: _order(replication, name))


def _order(replication: Replication, name: str) -> tuple[bool, float, str]:
    """Computed before timed ones; then by what an earlier run took, those never run last."""
    seconds = expected_seconds(replication, name)
    return (
        not getattr(replication.studies[name], "shared", False),
        math.inf if seconds is None else seconds,
        name,
    )


def expected_seconds(replication: Replication, name: str) -> float | None:
    """What the newest whole run of this size took, here or in ``STORED``; None: there is none."""
    runs = [
        run for root in dict.fromkeys((STORED, replication.root)) for run in stored_runs(root, name)
    ]
    timed = [run for run in runs if run.verdict is not None and run.size == replication.size]
    last = max(timed, key=lambda run: run.manifest.run, default=None)
    return None if last is None else last.manifest.seconds


def _estimate(replication: Replication) -> str:
    """How long what is left will take, in words."""
    left = replication.left()
    known = [s for name in left if (s := expected_seconds(replication, name)) is not None]
    return (
        f"{len(left)} of {len(replication.studies)} studies left: {len(known)} took "
        f"{seconds_in_words(sum(known))} at this size before, {len(left) - len(known)} were never timed at it"
    )


def _run_one(replication: Replication, name: str, limit_s: float | None) -> str:
    """One study in a process of its own; returns what became of it in a line."""
    study = replication.studies[name]
    words = [
        "experiment",
        "run",
        name,
        "--results",
        str(replication.root),
        "--seed",
        str(replication.seed),
    ]
    words += ["--quick"] if replication.size == "quick" else []
    words += replication.words if getattr(study, "shared", False) else []
    part = next((r for r in replication.runs(name) if r.state == "unfinished" and r.points), None)
    if part is not None and hasattr(study, "points"):
        words += ["--resume", str(part.directory)]
    elif (before := _with_valid_points(replication.runs(name))) is not None:
        words += ["--reuse-points", str(before)]
    began = time.monotonic()
    code, last = _child(words, limit_s)
    took = time.monotonic() - began
    now = representative_run(replication.runs(name))
    if code is None:
        return f"stopped      {name}  {took:.0f} s"
    if now is None or now.verdict is None:
        replication.broken[name] = last
        return f"broken       {name}  {took:.0f} s: {last}"
    return f"{now.state:12} {name}  {took:.0f} s, {_counted(now)}"


def _with_valid_points(runs: Sequence[StoredRun]) -> Path | None:
    """The newest invalid run of which some points are invalid and others are not, which need not be measured again."""
    for run in reversed(
        [run for run in runs if run.state == "invalid" and is_study(Path(run.directory))]
    ):
        rows = load_study(Path(run.directory))[2]
        if 0 < sum(bool(row.get("invalid")) for row in rows) < len(rows):
            return Path(run.directory)
    return None


def _counted(run: StoredRun) -> str:
    checks = run.verdict.checks if run.verdict is not None else ()
    return f"{sum(c.passed for c in checks)} of {len(checks)} checks"


def _child(words: Sequence[str], limit_s: float | None) -> tuple[int | None, str]:
    """Exit code (None where the time was over) and last line of ``testbed WORDS``; it dies with this process."""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(
            [*ENDS_WITH_PARENT, sys.executable, "-P", "-m", "testbed.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            code: int | None = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(child)
        said.seek(0)
        lines = said.read().strip().splitlines()
        return code, lines[-1] if lines else "it said nothing"


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _closing(replication: Replication, index: Path) -> Answer:
    stored = {name: replication.runs(name) for name in replication.studies}
    states = {name: _state(replication, name, runs) for name, runs in stored.items()}
    left = [name for name, state in states.items() if state in ("invalid", "unfinished", "not run")]
    failed = [name for name, state in states.items() if state in ("failed", "broken")]
    document = _document(replication, stored, states) | {"report": str(index)}

    def show() -> None:
        for name, why in replication.broken.items():
            print(f"broken: {name}: {why}")
        counts = {
            state: list(states.values()).count(state) for state in dict.fromkeys(states.values())
        }
        print(
            "studies: "
            + (", ".join(f"{count} {state}" for state, count in counts.items()) or "none chosen")
        )
        print(f"book:    {index}")

    code = 1 if failed else 5 if "cannot-tell" in states.values() else 4 if left else 0
    return Answer(document, show, code)


def _state(replication: Replication, name: str, runs: Sequence[StoredRun]) -> str:
    if name in replication.broken:
        return "broken"
    run = representative_run(runs)
    return "not run" if run is None else run.state


def _document(
    replication: Replication, stored: Mapping[str, Sequence[StoredRun]], states: Mapping[str, str]
) -> JsonObject:
    listed = []
    for name, runs in stored.items():
        run = representative_run(runs)
        checks = run.verdict.checks if run is not None and run.verdict is not None else ()
        outcomes = [check.outcome for check in checks]
        listed.append(
            {
                "name": name,
                "state": states[name],
                "run": None if run is None else str(run.directory),
                "seconds": None if run is None else run.manifest.seconds,
                "checks": {
                    outcome: outcomes.count(outcome)
                    for outcome in ("holds", "fails", "cannot-tell")
                },
                "invalid_runs": sum(r.state == "invalid" for r in runs),
                "problem": replication.broken.get(name),
            }
        )
    return {"size": replication.size, "results": str(replication.root), "studies": listed}
