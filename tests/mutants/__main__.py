"""``make mutants``: put small mistakes into the code, one at a time, and see whether the tests find them.

cosmic-ray knows the mistakes (operators replaced, numbers changed by one, loops left out ...) and makes them in a copy
of the project below build/mutants, one mutant a run of pytest, which stops at its first failure. There are ten
thousands of mutants, so a seeded sample is drawn for each package: places in the code in random order, one mistake a
place until every place has had one. What has been tried is kept: a run that was stopped goes on where it was, a larger
``--most`` continues a smaller one, new tests are held against the survivors again, and changed code begins anew.

    make mutants ARGS='--package fec --most 60'
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome

from tests.helpers.paths import ROOT
from tests.mutants.packages import PACKAGES, Package
from tests.mutants.sample import place_of, sample_order

PLACE = ROOT / "build" / "mutants"
MAX_MEMORY_BYTES = 6 << 30
"""Of one test run: a mutant's endless loop may fill a list for ever."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description="Mutation tests of the pure rooms.")
    names = [package.name for package in PACKAGES]
    parser.add_argument("--package", action="append", choices=names, help="only these (default: all)")
    parser.add_argument("--most", type=int, default=40, metavar="N", help="mutants a package at most (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    args = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, limit))
    tree = copy_of_project()
    chosen = [p for p in PACKAGES if args.package is None or p.name in args.package]
    lines = [f"{'package':12}{'places':>8}{'made':>8}{'killed':>8}{'survived':>10}"]
    for package in chosen:
        tried, places = try_package(package, tree, args.most, args.seed)
        alive = [result for result in tried if not result.is_killed]
        lines.append(f"{package.name:12}{places:8}{len(tried):8}{len(tried) - len(alive):8}{len(alive):10}")
        for number, result in enumerate(alive, start=1):
            print(f"\n{package.name}: survivor {number} of {len(alive)}\n{result.diff}", flush=True)
    print("\n" + "\n".join(lines))
    return 0


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
    return tree


def try_package(package: Package, tree: Path, most: int, seed: int) -> tuple[list[Any], int]:
    """Results of the sample's mutants, and how many places of the package can be mutated."""
    modules = package.modules(tree)
    with session(package, tree, modules) as database, inside(tree, package):
        order = list(sample_order(database.work_items, tree, seed))
        places = len({place_of(item.mutations[0]) for item in order})
        done = dict(database.results)
        timeout_s = 10 + 4 * healthy_seconds(package, tree, modules)
        for number, item in enumerate(order[:most], start=1):
            if item.job_id not in done:
                mutation = item.mutations[0]
                command = shlex.join(test_command(package, tree, Path(mutation.module_path)))
                done[item.job_id] = mutate_and_test(item.mutations, command, timeout_s)
                database.set_result(item.job_id, done[item.job_id])
                outcome = done[item.job_id].test_outcome
                said = "SURVIVED" if outcome == TestOutcome.SURVIVED else "killed"
                where = f"{mutation.module_path}:{mutation.start_pos[0]}"
                print(
                    f"{package.name} {number}/{min(most, len(order))} {said}: {where} {mutation.operator_name}",
                    flush=True,
                )
        return [done[item.job_id] for item in order[:most]], places


@contextmanager
def session(package: Package, tree: Path, modules: list[Path]) -> Iterator[WorkDB]:
    """What has been tried of this very code: all of it against these very tests, or killed by earlier ones."""
    code = fingerprint(tree / module for module in modules)
    tests = fingerprint(path for place in package.tests for path in python_files(tree / place))
    path = PLACE / f"{package.name}-{code}.sqlite"
    for other in PLACE.glob(f"{package.name}-*.sqlite"):
        if other != path:
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
        yield database
    finally:
        database.close()


def forget_survivors(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM work_results WHERE test_outcome = 'SURVIVED'")


def python_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


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


def test_command(package: Package, tree: Path, module: Path) -> list[str]:
    """Without shrinking: that something fails is enough."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=mutants", "--tb=line"]
    return [sys.executable, "-m", "pytest", *options, *package.test_words(tree, module)]


def healthy_seconds(package: Package, tree: Path, modules: list[Path]) -> float:
    """How long the tests take on code as it is; SystemExit where they fail, for then nothing can be learned."""
    began = time.monotonic()
    done = subprocess.run(test_command(package, tree, modules[-1]), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{package.name}: its tests fail on code without a mutant\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
