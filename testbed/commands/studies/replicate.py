"""``testbed replicate``: runs every study that is not stored yet; then writes the book."""

import argparse
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
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
from testbed.errors import InvalidRunError, UndecidedError
from testbed.live.adapters.feed import PointsPage, live_feed
from testbed.live.events import InterimResults
from testbed.model.options import kinds
from testbed.model.options.option import RUN, RUNNING, Only
from testbed.model.progress import Progress
from testbed.model.stored_runs import StoredRun, representative_run
from testbed.model.verdict import Check
from testbed.report.column_units import seconds_in_words
from testbed.report.progress_bar import progress_bar
from testbed.report.register import Row, counts, counts_by_chapter, outcome_in_words
from testbed.results.study_store import STORED, is_study, load_study, stored_runs
from topologies.text.json_types import Json, JsonObject

DESCRIPTION = (
    "Run every study that is not stored yet, and then write the book of results. Studies that "
    "only compute are run first, with all workers. The others are run one at a time, the "
    "shortest first by its earlier duration. If the command is stopped, the same command "
    "continues where it was. Exit code: 0 all studies are stored and passed, 1 one failed, 5 "
    "one cannot tell, 4 one is invalid or was not run."
)
# How often a study is run if its runs are invalid, by its size.
ATTEMPTS = {"full": 3, "quick": 2}
# Time for a study to end after an interrupt, in seconds. After that it is killed.
GRACE_S = 30.0


@dataclass
class Replication:
    """A replication: the studies to run, and where their runs are stored.

    Attributes:
        studies: The chosen studies by name.
        size: "quick" or "full".
        root: The folder of results.
        seed: Seed of every study.
        words: The arguments about workers, for studies whose points are shared.
        broken: For each study that could not be run, its last line of output.
    """

    studies: Mapping[str, object]
    size: str
    root: Path
    seed: int
    words: list[str]
    broken: dict[str, str] = field(default_factory=dict)

    def runs(self, name: str) -> list[StoredRun]:
        """Return the stored runs of a study with this size and seed."""
        runs = stored_runs(self.root, name)
        return [run for run in runs if (run.size, run.manifest.seed) == (self.size, self.seed)]

    def left(self) -> list[str]:
        """Return the studies that have no result yet and are to be tried, perhaps again."""
        candidates = [name for name in self.studies if name not in self.broken]
        return [name for name in candidates if self._needs_a_run(self.runs(name))]

    def _needs_a_run(self, runs: Sequence[StoredRun]) -> bool:
        if any(run.state not in ("invalid", "unfinished") for run in runs):
            return False
        return _invalid_runs(runs) < ATTEMPTS[self.size]


def _invalid_runs(runs: Sequence[StoredRun]) -> int:
    return len([run for run in runs if run.state == "invalid"])


def _writes_book(args: argparse.Namespace) -> bool:
    return bool(args.book)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    _add_size(parser)
    add = adder(parser)
    add(
        "--chapter",
        type=kinds.any_whole,
        action="append",
        choices=(2, 3, 4, 5),
        help="run only the studies of this chapter (repeatable)",
    )
    add(
        "--only",
        action="append",
        metavar="NAME",
        help="run only this study (repeatable)",
    )
    add(
        "--max-hours",
        dest="hours",
        type=kinds.hours,
        metavar="HOURS",
        help="stop after this number of hours; stored runs are kept",
        only=RUNNING,
    )
    _add_run_options(parser)
    add(
        "--claims",
        action="store_true",
        help="list every claim of the documents and the outcomes of its checks, and run nothing",
    )
    add(
        "--report-only",
        dest="book",
        action="store_true",
        help="write the book of the stored runs, and run nothing",
    )
    add(
        "--compress",
        dest="pack",
        action="store_true",
        help="pack each finished run into an archive, RUN.zip, except for drawings that "
        "docs/replication shows (with --report-only)",
        only=Only(when=_writes_book, needs="what is stored, with --report-only"),
    )
    add_options(parser, JsonOptions, LiveOptions)


def _add_size(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full",
        action="store_true",
        help="run every study at its full size, which takes many hours (default)",
    )
    size.add_argument(
        "--quick",
        action="store_true",
        help="run every study at its reduced size",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, RUN)
    add(
        "--seed",
        type=kinds.seed,
        default=1,
        help="seed of every study (default: 1)",
    )
    add_options(parser, DaskOptions, TlsOptions)
    add(
        "--results",
        type=Path,
        help=f"directory for results (default: {STORED}, with --quick results/replication)",
    )


def run(args: argparse.Namespace) -> Answer:
    """Run the studies and write the book, or list the claims."""
    root = args.results
    if root is None:
        root = Path("results/replication") if args.quick else STORED
    replication = Replication(
        studies=_chosen(args),
        size="quick" if args.quick else "full",
        root=root,
        seed=args.seed,
        words=_worker_arguments(args),
    )
    if args.claims:
        return _claims(root)
    start_live(args)
    if not args.book:
        deadline_s = math.inf
        if args.hours is not None:
            deadline_s = time.monotonic() + 3600 * args.hours
        _run_all(replication, deadline_s, quiet=args.json)
    if args.pack:
        pack_runs(root)
    index = write_book(root)
    return _final_answer(replication, index)


def _claims(root: Path) -> Answer:
    """Return the claims of the documents, their counts by chapter, and studies without a claim."""
    rows = register_of(book_chapters(root))
    needed: set[str] = set()
    claims: list[Json] = []
    for row in rows:
        needed.update(row.studies)
        claims += row.to_json()
    idle = [name for name in find_experiments() if name not in needed]
    document = {
        "claims": claims,
        "counts": counts_by_chapter(rows),
        "total": counts(rows),
        "idle": idle,
    }
    return Answer(document, partial(_print_claims, rows, idle))


def _print_claims(rows: Sequence[Row], idle: Sequence[str]) -> None:
    for row in rows:
        # The studies, and the commands of checks that are not of a study.
        sources = list(row.studies)
        sources += [check.command for check in row.shown if not check.study]
        position = f"{row.document} {row.where}"
        if row.page is not None:
            position += f", page {row.page}"
        print(f"{position}: {row.claim}")
        print(f"    {row.standing}; {outcome_in_words(row)}; {', '.join(sources)}")
    for name, outcomes in {**counts_by_chapter(rows), "all": counts(rows)}.items():
        print(f"{name}: " + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    print(f"studies that serve no claim of the documents: {', '.join(idle) or 'none'}")


def _chosen(args: argparse.Namespace) -> dict[str, object]:
    """Return the studies that ``--only`` and ``--chapter`` choose."""
    for name in args.only or ():
        known_experiment(name)
    chapter_of = chapters()
    chosen: dict[str, object] = {}
    for name, study in find_experiments().items():
        if args.only and name not in args.only:
            continue
        if args.chapter and chapter_of.get(name) not in args.chapter:
            continue
        chosen[name] = study
    return chosen


def _worker_arguments(args: argparse.Namespace) -> list[str]:
    # Reports a mistake in the TLS options before anything begins.
    security_of(args)
    if args.scheduler:
        return ["--dask", args.scheduler, *tls_words(args)]
    return ["--workers", str(args.workers)]


def _run_all(replication: Replication, deadline_s: float, quiet: bool) -> None:
    """Run studies until none is left, or the time limit expires.

    A study whose run is invalid is run again after all others. Its valid points are kept.

    Args:
        replication: The replication.
        deadline_s: When to stop, on the monotonic clock, in seconds.
        quiet: Whether no progress is printed.
    """
    total = len(replication.studies)
    if not quiet:
        print(_estimate(replication), flush=True)
    feed = live_feed()
    page = None
    if feed is not None:
        page = PointsPage(feed, "Replication", partial(_interim_results, replication))
    with progress_bar("replicate") as show:
        for name in _in_turn(replication):
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                return
            completed = total - len(replication.left())
            if show is not None:
                show(Progress(done_s=completed, total_s=total, doing=name))
            if page is not None:
                page.show(completed, total, f"{completed} of {total} studies; now {name}")
            line = _run_one(replication, name, remaining_s)
            if not quiet:
                print(line, flush=True)


def _interim_results(replication: Replication) -> InterimResults:
    """Return the state of every study, for the live page."""
    outcomes: list[tuple[str, str]] = []
    for name in replication.studies:
        state = _state(replication, name, replication.runs(name))
        outcomes.append((state.replace("-", " "), name))
    return InterimResults(outcomes=tuple(outcomes))


def _in_turn(replication: Replication) -> Iterator[str]:
    """Yield the studies to run. Those that are left come again in each round."""
    for _ in range(ATTEMPTS[replication.size]):
        yield from sorted(replication.left(), key=partial(_order, replication))


def _order(replication: Replication, name: str) -> tuple[bool, float, str]:
    """Return the sort key of a study.

    Studies that only compute come before those that run in real time. Then the shortest comes
    first, and a study that was never run comes last.
    """
    is_shared = getattr(replication.studies[name], "shared", False)
    seconds = expected_seconds(replication, name)
    if seconds is None:
        seconds = math.inf
    return (not is_shared, seconds, name)


def expected_seconds(replication: Replication, name: str) -> float | None:
    """Return how long the newest finished run of a study with this size took, in seconds.

    The runs in the folder of results and those in ``STORED`` count. The result is None if there is
    none.
    """
    roots = dict.fromkeys((STORED, replication.root))
    finished: list[StoredRun] = []
    for root in roots:
        for run in stored_runs(root, name):
            if run.verdict is not None and run.size == replication.size:
                finished.append(run)
    if not finished:
        return None
    newest = max(finished, key=lambda run: run.manifest.run)
    return newest.manifest.seconds


def _estimate(replication: Replication) -> str:
    """Return a line that says how long the remaining studies will take."""
    left = replication.left()
    durations_s: list[float] = []
    for name in left:
        seconds = expected_seconds(replication, name)
        if seconds is not None:
            durations_s.append(seconds)
    untimed = len(left) - len(durations_s)
    return (
        f"{len(left)} of {len(replication.studies)} studies left: {len(durations_s)} took "
        f"{seconds_in_words(sum(durations_s))} at this size before, "
        f"{untimed} were never timed at it"
    )


def _run_one(replication: Replication, name: str, limit_s: float) -> str:
    """Run a study in another process, and return a line with its outcome.

    Args:
        replication: The replication.
        name: Name of the study.
        limit_s: Limit on the time, in seconds.
    """
    argv = _study_argv(replication, name)
    began_s = time.monotonic()
    exit_code, last_line = _child(argv, limit_s)
    took_s = time.monotonic() - began_s
    run = representative_run(replication.runs(name))
    if exit_code is None:
        return f"stopped      {name}  {took_s:.0f} s"
    if run is None or run.verdict is None:
        replication.broken[name] = last_line
        return f"broken       {name}  {took_s:.0f} s: {last_line}"
    return f"{run.state:12} {name}  {took_s:.0f} s, {_checks_text(run)}"


def _study_argv(replication: Replication, name: str) -> list[str]:
    """Return the arguments of ``testbed`` that run a study.

    An unfinished run is resumed. Otherwise the valid points of an invalid run are used again.
    """
    study = replication.studies[name]
    argv = ["experiment", "run", name]
    argv += ["--results", str(replication.root), "--seed", str(replication.seed)]
    if replication.size == "quick":
        argv.append("--quick")
    if getattr(study, "shared", False):
        argv += replication.words
    unfinished = _unfinished_run(replication.runs(name))
    if unfinished is not None and hasattr(study, "points"):
        return [*argv, "--resume", str(unfinished.directory)]
    partly_valid = _partly_valid_run(replication.runs(name))
    if partly_valid is not None:
        return [*argv, "--reuse-points", str(partly_valid)]
    return argv


def _unfinished_run(runs: Sequence[StoredRun]) -> StoredRun | None:
    """Return the first unfinished run with measured points, or None."""
    return next((run for run in runs if run.state == "unfinished" and run.points), None)


def _partly_valid_run(runs: Sequence[StoredRun]) -> Path | None:
    """Return the folder of the newest invalid run with some valid points, or None."""
    for run in reversed(runs):
        directory = Path(run.directory)
        if run.state != "invalid" or not is_study(directory):
            continue
        _, _, rows, _ = load_study(directory)
        invalid = len([row for row in rows if row.get("invalid")])
        if 0 < invalid < len(rows):
            return directory
    return None


def _checks_text(run: StoredRun) -> str:
    checks = _checks(run)
    passed = len([check for check in checks if check.passed])
    return f"{passed} of {len(checks)} checks"


def _checks(run: StoredRun | None) -> Sequence[Check]:
    """Return the checks of a run; none if it has no verdict."""
    if run is None or run.verdict is None:
        return ()
    return run.verdict.checks


def _outcome_counts(run: StoredRun | None) -> dict[str, int]:
    counter = Counter(check.outcome for check in _checks(run))
    return {
        "holds": counter["holds"],
        "fails": counter["fails"],
        "cannot-tell": counter["cannot-tell"],
    }


def _child(argv: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Run ``testbed`` with these arguments in a process that dies with this one.

    Args:
        argv: The arguments.
        limit_s: Limit on the time, in seconds; infinity for none.

    Returns:
        The exit code, or None if the time was over; and the last line of output.
    """
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(
            [*ENDS_WITH_PARENT, sys.executable, "-P", "-m", "testbed.cli", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            # ``wait`` does not accept infinity.
            exit_code: int | None = child.wait(None if math.isinf(limit_s) else limit_s)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            _end(child)
        output.seek(0)
        lines = output.read().strip().splitlines() or ["it said nothing"]
        return exit_code, lines[-1]


def _end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a process if it is running, and kill it if it does not end."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _final_answer(replication: Replication, index: Path) -> Answer:
    """Return the states of all studies, and the exit code of the worst.

    Args:
        replication: The replication.
        index: The front page of the book.
    """
    runs_of = {name: replication.runs(name) for name in replication.studies}
    states = {name: _state(replication, name, runs) for name, runs in runs_of.items()}
    document = _document(replication, runs_of, states) | {"report": str(index)}
    show = partial(_print_states, replication, states, index)
    return Answer(document, show, _exit_code(set(states.values())))


def _exit_code(states: set[str]) -> int:
    if states & {"failed", "broken"}:
        return 1
    if "cannot-tell" in states:
        return UndecidedError.exit_code
    if states & {"invalid", "unfinished", "not run"}:
        return InvalidRunError.exit_code
    return 0


def _print_states(replication: Replication, states: Mapping[str, str], index: Path) -> None:
    for name, reason in replication.broken.items():
        print(f"broken: {name}: {reason}")
    texts = [f"{count} {state}" for state, count in Counter(states.values()).items()]
    print(f"studies: {', '.join(texts) or 'none chosen'}")
    print(f"book:    {index}")


def _state(replication: Replication, name: str, runs: Sequence[StoredRun]) -> str:
    if name in replication.broken:
        return "broken"
    run = representative_run(runs)
    return "not run" if run is None else run.state


def _document(
    replication: Replication, runs_of: Mapping[str, Sequence[StoredRun]], states: Mapping[str, str]
) -> JsonObject:
    studies: list[JsonObject] = []
    for name, runs in runs_of.items():
        run = representative_run(runs)
        study: JsonObject = {
            "name": name,
            "state": states[name],
            "run": None,
            "seconds": None,
            "checks": _outcome_counts(run),
            "invalid_runs": _invalid_runs(runs),
            "problem": replication.broken.get(name),
        }
        if run is not None:
            study["run"] = str(run.directory)
            study["seconds"] = run.manifest.seconds
        studies.append(study)
    return {"size": replication.size, "results": str(replication.root), "studies": studies}
