"""Runs Mininet's own tests on the testbed's classes: one command, one line for each test file.

    python tools/run_mininet_tests.py SOURCE [FILE...] [--store FOLDER]

SOURCE is the folder of Mininet's source package (``apt-get source mininet``, or a clone of
github.com/mininet/mininet). Each file of ``mininet/test`` and ``examples/test`` is run by ``testbed
python`` in a sandbox of its own. A line says ``passed``, ``failed``, or ``intended`` if the only tests
that fail are differences that docs/reference/mininet.md lists. The exit code is 1 if a file failed.

A full round takes about half an hour. With ``--store FOLDER``, each file's result is stored there as
soon as the file has run, and an interrupted round continues with the next file.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("mininet/test", "examples/test")
# treeping64 pings 8,064 pairs one after the other: nine minutes on two busy processors.
LIMIT_S = 1800.0
_NO_WAY_OUT = "nothing leads out of the sandbox"
_NO_CPU_LIMITS = "hosts have no processor limits"
_OUTSIDE_NETWORK = "its nodes are made without a network"
_NO_SSHD = "not possible here: the machine has no sshd"
_NO_VLAN = "not possible here: vconfig, or the kernel's VLAN interfaces, are missing"
# File -> test -> why it fails here.
INTENDED = {
    "mininet/test/test_hifi.py": {"testCPULimits": _NO_CPU_LIMITS},
    "mininet/test/test_walkthrough.py": {
        "testOwnNamespace": "switches have no namespaces of their own",
        "testVerbosity": "it counts commands that are carried out without a shell",
        "testRemoteController": "it fetches POX from the network",
    },
    "examples/test/test_clusterSanity.py": {"testClusterPingAll": "clusters are not carried out"},
    "examples/test/test_controlnet.py": {
        "testFailover": "a control network is not carried out",
        "testPingall": "a control network is not carried out",
    },
    "examples/test/test_sshd.py": {"testSSH": _NO_SSHD},
    "examples/test/test_vlanhost.py": {
        "testVLANTopo": _NO_VLAN,
        "testSpecificVLAN": _NO_VLAN,
    },
    "examples/test/test_natnet.py": {"testPublicPing": _NO_WAY_OUT},
    "examples/test/test_nat.py": {"testNAT": _NO_WAY_OUT},
    "examples/test/test_cpu.py": {"testCPU": _NO_CPU_LIMITS},
    "examples/test/test_limit.py": {"testLimit": _NO_CPU_LIMITS},
    "examples/test/test_baresshd.py": {"testSSH": _NO_SSHD},
    "examples/test/test_scratchnet.py": {
        "testPingKernel": _OUTSIDE_NETWORK,
        "testPingUser": _OUTSIDE_NETWORK,
    },
}
_FAILED = re.compile(r"^(?:FAIL|ERROR): (\w+) \(\w+\.(\w+)[.)]", re.MULTILINE)
_SUMMARY = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_SKIPPED = re.compile(r"skipped=(\d+)")


@dataclass(frozen=True, kw_only=True)
class FileResult:
    """The outcome of the tests of one file."""

    file: str
    ran: int
    skipped: int
    failed: tuple[str, ...]
    output: str

    @property
    def outcome(self) -> str:
        """``passed``, ``failed`` or ``intended``."""
        if self.ran == 0:
            return "failed"
        if not self.failed:
            return "passed"
        return "intended" if all(map(self.reason, self.failed)) else "failed"

    def reason(self, test: str) -> str | None:
        """Return why the test (class and name) is meant to fail."""
        return INTENDED.get(self.file, {}).get(test.partition(".")[2])

    def line(self) -> str:
        """Return the line of the file in the report."""
        passed = self.ran - self.skipped - len(self.failed)
        text = f"{self.outcome:9} {self.file}: {passed} of {self.ran} passed"
        if self.skipped:
            text += f", {self.skipped} skipped"
        details = [f"{test} ({self.reason(test) or 'failed'})" for test in self.failed]
        return "; ".join([text, *details])


def test_files(source: Path) -> list[str]:
    """Return the test files of Mininet's source."""
    files: list[str] = []
    for folder in FOLDERS:
        files += [f"{folder}/{path.name}" for path in sorted((source / folder).glob("test_*.py"))]
    return files


def run_file(source: Path, file: str, *names: str, limit_s: float = LIMIT_S) -> FileResult:
    """Run a test file, or the named tests of it, by ``testbed python``."""
    folder, _, script = file.rpartition("/")
    words = [sys.executable, "-P", "-m", "testbed.cli", "python", script, "-v", *names]
    with tempfile.TemporaryDirectory() as programs:
        _write_programs(Path(programs), source)
        environment = {
            **os.environ,
            "HOME": programs,  # One of them makes keys below it.
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{source}:{ROOT}",
        }
        try:
            done = subprocess.run(
                words,
                cwd=source / folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
            output = done.stdout
        except subprocess.TimeoutExpired as expired:
            printed = expired.stdout or b""
            text = printed if isinstance(printed, str) else printed.decode(errors="replace")
            output = f"{text}\nit did not end within {limit_s:g} s\n"
    ran = _SUMMARY.search(output)
    skipped = _SKIPPED.search(output)
    return FileResult(
        file=file,
        ran=int(ran[1]) if ran else 0,
        skipped=int(skipped[1]) if skipped else 0,
        failed=tuple(dict.fromkeys(f"{case}.{test}" for test, case in _FAILED.findall(output))),
        output=output,
    )


def _write_programs(folder: Path, source: Path) -> None:
    """Write programs mn and python: those that the tests start run on the testbed's classes too."""
    inner = f"{sys.executable} -P -m testbed.emulation.network.mininet_network.script"
    head = f"#!/bin/sh\nexport PYTHONPATH={source}:{ROOT}\n"
    module = f'case "$2" in mininet.*) exec {inner} "$@";; esac\nexec {sys.executable} "$@"\n'
    bodies = {
        "mn": f'exec {inner} {source}/bin/mn "$@"\n',
        "python": module,
        "python3": module,
    }
    for name, body in bodies.items():
        (folder / name).write_text(head + body)
        (folder / name).chmod(0o755)


def run_again(source: Path, result: FileResult) -> FileResult:
    """Run each failed test alone: a test that fails leaves its network to those after it."""
    failed = []
    output = result.output
    for test in result.failed:
        alone = run_file(source, result.file, test)
        if alone.failed or alone.ran == 0:
            failed.append(test)
            output += alone.output
    return replace(result, failed=tuple(failed), output=output)


def load_result(path: Path) -> FileResult:
    """Read a stored result.

    Raises:
        ValueError: The file is not a stored result.
    """
    fields = json.loads(path.read_text())
    try:
        return FileResult(**{**fields, "failed": tuple(fields["failed"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"{path}: not a stored result; remove the file") from error


def store_result(path: Path, result: FileResult) -> None:
    """Write a result so that an interruption leaves either the complete file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(asdict(result), indent=1))
    unfinished.replace(path)


def results(source: Path, files: list[str], store: Path | None = None) -> Iterator[FileResult]:
    """Run one file after the other, except files with a stored result."""
    for file in files:
        path = store / f"{file.replace('/', '.')}.json" if store else None
        if path and path.exists():
            yield load_result(path)
            continue
        result = run_file(source, file)
        if result.outcome == "failed":
            result = run_again(source, result)
        if path:
            store_result(path, result)
        yield result


def main(words: list[str]) -> int:
    """Print the report; return 1 if a file failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("source", type=Path, help="folder of Mininet's source")
    parser.add_argument("files", nargs="*", help="test files, such as mininet/test/test_nets.py")
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="store each file's result here, and do not run a file whose result is stored",
    )
    parser.add_argument("--output", action="store_true", help="print what failed files print")
    arguments = parser.parse_args(words)
    source = arguments.source.resolve()
    files = test_files(source)
    if not files:
        print(f"{source}: no tests of Mininet; give the folder of its source", file=sys.stderr)
        return 2
    worst = 0
    for result in results(source, arguments.files or files, arguments.store):
        print(result.line(), flush=True)
        if result.outcome == "failed":
            worst = 1
            if arguments.output:
                print(result.output)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
