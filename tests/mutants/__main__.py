"""``make mutants``: put small mistakes into the code, one at a time, and see whether the tests find them.

cosmic-ray knows the mistakes (operators replaced, numbers changed by one, loops left out ...) and makes them in a copy
of the project below build/mutants, one mutant a run of the tests that execute its statement (``trials.py``), which
stops at its first failure. There are ten thousands of mutants, so a seeded sample is drawn for each package: places in
the code in random order, one mistake a place until every place has had one. What has been tried is kept: a run that was
stopped goes on where it was, a larger ``--most`` continues a smaller one, new tests are held against the survivors
again, and changed code begins anew.

    make mutants ARGS='--package fec --most 60'
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

from tests.helpers.paths import ROOT
from tests.mutants.packages import PACKAGES, Package, python_files
from tests.mutants.sample import place_of, sample_order
from tests.mutants.trials import Trials

PLACE = ROOT / "build" / "mutants"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make mutants", description="Mutation tests of the pure rooms."
    )
    names = [package.name for package in PACKAGES]
    parser.add_argument(
        "--package", action="append", choices=names, help="only these (default: all)"
    )
    parser.add_argument(
        "--most", type=int, default=40, metavar="N", help="mutants a package at most (default 40)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    args = parser.parse_args()
    tree = copy_of_project()
    lines = [f"{'package':12}{'places':>8}{'made':>8}{'killed':>8}{'survived':>10}"]
    for package in PACKAGES:
        if args.package is None or package.name in args.package:
            # in a process of its own, which has what the package wants of numba, and none of the project
            told: Any = multiprocessing.get_context("fork").SimpleQueue()
            trial = multiprocessing.get_context("fork").Process(
                target=lambda package=package, told=told: told.put(
                    tried(package, tree, args.most, args.seed)
                )
            )
            trial.start()
            trial.join()
            if trial.exitcode:
                return trial.exitcode
            lines.append(told.get())
    print("\n" + "\n".join(lines))
    return 0


def tried(package: Package, tree: Path, most: int, seed: int) -> str:
    """The package's line in the table; its survivors are shown."""
    results, places = try_package(package, tree, most, seed)
    alive = [result for result in results if not result.is_killed]
    for number, result in enumerate(alive, start=1):
        print(f"\n{package.name}: survivor {number} of {len(alive)}\n{result.diff}", flush=True)
    return (
        f"{package.name:12}{places:8}{len(results):8}{len(results) - len(alive):8}{len(alive):10}"
    )


def copy_of_project() -> Path:
    """The project's files as they are now, changed or not, where they may be mutated."""
    tree = PLACE / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    # The library and its digest, which git ignores; routines of mutated steps are not found in it.
    for path in (ROOT / "fec").glob("kernels-*"):
        shutil.copy2(path, tree / "fec")
    return tree


def try_package(package: Package, tree: Path, most: int, seed: int) -> tuple[list[Any], int]:
    """Results of the sample's mutants, and how many places of the package can be mutated."""
    modules = package.modules(tree)
    with session(package, tree, modules) as (database, notes), inside(tree, package):
        order = list(sample_order(database.work_items, tree, seed))
        places = len({place_of(item.mutations[0]) for item in order})
        done = dict(database.results)
        trials = Trials(tree, modules, package.tests, package.deselect, notes)
        for number, item in enumerate(order[:most], start=1):
            if item.job_id not in done:
                done[item.job_id] = try_mutant(item.mutations[0], tree, trials)
                database.set_result(item.job_id, done[item.job_id])
                said = "killed" if done[item.job_id].is_killed else "SURVIVED"
                mutation = item.mutations[0]
                where = f"{mutation.module_path}:{mutation.start_pos[0]}"
                print(
                    f"{package.name} {number}/{min(most, len(order))} {said}: {where} {mutation.operator_name}",
                    flush=True,
                )
        return [done[item.job_id] for item in order[:most]], places


def try_mutant(mutation: Any, tree: Path, trials: Trials) -> WorkResult:
    """Whether a test fails while the mutant stands in the tree."""
    path = tree / mutation.module_path
    source, times = path.read_text(), path.stat()
    operator = get_operator(mutation.operator_name)(**getattr(mutation, "operator_args", {}))
    code = mutate_code(source, operator, mutation.occurrence)
    if code is None:
        return WorkResult(worker_outcome=WorkerOutcome.NO_TEST)
    tests = trials.tests_for(Path(mutation.module_path), mutation.start_pos[0])
    try:
        path.write_text(code)
        killed, output = trials.killed(tests)
    finally:
        path.write_text(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    names = str(mutation.module_path), mutation.operator_name
    diff = difflib.unified_diff(source.splitlines(), code.splitlines(), *names, lineterm="", n=2)
    outcome = TestOutcome.KILLED if killed else TestOutcome.SURVIVED
    return WorkResult(
        output=output,
        diff="\n".join(diff),
        test_outcome=outcome,
        worker_outcome=WorkerOutcome.NORMAL,
    )


@contextmanager
def session(package: Package, tree: Path, modules: list[Path]) -> Iterator[tuple[WorkDB, Path]]:
    """What has been tried of this very code: all of it against these very tests, or killed by earlier ones; and where
    it is kept which tests execute what."""
    code = fingerprint(tree / module for module in modules)
    tests = fingerprint(
        path for place in package.tests for path in python_files(tree / place.partition("::")[0])
    )
    path = PLACE / f"{package.name}-{code}.sqlite"
    for other in PLACE.glob(f"{package.name}-*.sqlite"):
        if other != path:
            other.unlink()
    for other in PLACE.glob(f"{package.name}-*.json"):
        if other.stem != f"{package.name}-{code}-{tests}":
            other.unlink()
    database = WorkDB(path, WorkDB.Mode.create)
    if database.num_work_items == 0:
        with inside(tree, package):
            init(modules, database, {})
    known = PLACE / f"{package.name}.tests"
    if known.exists() and known.read_text() != tests:
        forget_survivors(path)
    known.write_text(tests)
    try:
        yield database, PLACE / f"{package.name}-{code}-{tests}.json"
    finally:
        database.close()


def forget_survivors(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM work_results WHERE test_outcome = 'SURVIVED'")


def fingerprint(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:16]


@contextmanager
def inside(tree: Path, package: Package) -> Iterator[None]:
    """In the copy, where cosmic-ray's paths are relative to, with numba switched off where the package is
    interpreted."""
    home = Path.cwd()
    wanted = {
        "PYTHONPATH": str(tree),
        "NUMBA_DISABLE_JIT": "1" if package.interpret else "0",
        "NUMBA_CACHE_DIR": str(PLACE / "numba"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    os.chdir(tree)
    try:
        yield
    finally:
        os.chdir(home)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


if __name__ == "__main__":
    sys.exit(main())
