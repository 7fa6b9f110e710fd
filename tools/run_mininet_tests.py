"""Runs Mininet's own tests on the testbed's classes: one command, one line for each test file.

    python tools/run_mininet_tests.py SOURCE [FILE...] [--store FOLDER]

SOURCE is the folder of Mininet's source package (``apt-get source mininet``, or a clone of
github.com/mininet/mininet). ``testbed python`` runs each file of ``mininet/test`` and
``examples/test`` in a sandbox of its own. A line says ``passed``, ``failed``, or ``intended`` if
the only tests that fail are differences that docs/reference/mininet.md lists. The exit code is 1 if
a file failed.

A full round takes about half an hour. With ``--store FOLDER``, the result of each file is stored
there as soon as the file has run, and an interrupted round continues with the next file.
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
# treeping64 pings 8,064 pairs one after another, which takes nine minutes on two busy processors.
LIMIT_S = 1800.0
_NO_WAY_OUT = "nothing leads out of the sandbox"
_NO_CPU_LIMITS = "hosts have no processor limits"
_OUTSIDE_NETWORK = "its nodes are made without a network"
_NO_SSHD = "not possible here: the machine has no sshd"
_NO_VLAN = "not possible here: vconfig, or the kernel's VLAN interfaces, are missing"
# The reason why a test fails here, by file and test.
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
    """The outcome of the tests of one file.

    Attributes:
        file: Path of the file in Mininet's source.
        ran: Number of tests that ran, including skipped and failed ones.
        skipped: Number of skipped tests.
        failed: Class and name of each failed test.
        output: Everything that the tests printed.
    """

    file: str
    ran: int
    skipped: int
    failed: tuple[str, ...]
    output: str

    @property
    def outcome(self) -> str:
        """``passed``, ``failed`` or ``intended``. If no test ran, the file failed."""
        if self.ran == 0:
            return "failed"
        if not self.failed:
            return "passed"
        return "intended" if all(map(self.reason, self.failed)) else "failed"

    def reason(self, test: str) -> str | None:
        """Return why a test (class and name) is expected to fail, or None."""
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
    """Run a test file with ``testbed python``.

    Args:
        source: Folder of Mininet's source.
        file: Path of the test file in that folder.
        *names: The tests to run. Empty: all tests of the file.
        limit_s: Duration in seconds after which the tests are stopped.
    """
    folder, _, script = file.rpartition("/")
    argv = [sys.executable, "-P", "-m", "testbed.cli", "python", script, "-v", *names]
    with tempfile.TemporaryDirectory() as programs:
        _write_programs(Path(programs), source)
        environment = {
            **os.environ,
            # A test writes SSH keys into the home directory.
            "HOME": programs,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{source}:{ROOT}",
        }
        try:
            process = subprocess.run(
                argv,
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
            output = process.stdout
        except subprocess.TimeoutExpired as expired:
            printed = expired.stdout or b""
            # The output is not decoded if the process was stopped.
            text = printed.decode(errors="replace") if isinstance(printed, bytes) else printed
            output = f"{text}\nit did not end within {limit_s:g} s\n"
    return FileResult(
        file=file,
        ran=_number(_SUMMARY, output),
        skipped=_number(_SKIPPED, output),
        failed=tuple(dict.fromkeys(f"{case}.{test}" for test, case in _FAILED.findall(output))),
        output=output,
    )


def _number(pattern: re.Pattern[str], output: str) -> int:
    """Return the number that the pattern finds in the output, or 0."""
    match = pattern.search(output)
    return int(match[1]) if match else 0


def _write_programs(folder: Path, source: Path) -> None:
    """Write programs mn and python, so that programs which tests start use the testbed's classes.

    Args:
        folder: Folder for the programs.
        source: Folder of Mininet's source.
    """
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
    """Run each failed test alone, and return the result without the tests that then pass.

    A test that fails does not remove its network, and this makes tests after it fail.
    """
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
    """Run one file after another, and yield their results.

    Args:
        source: Folder of Mininet's source.
        files: Paths of the test files in that folder.
        store: Folder for the results. A file whose result is there is not run. None: results are
            not stored.
    """
    for file in files:
        if store is None:
            yield _file_result(source, file)
            continue
        path = store / f"{file.replace('/', '.')}.json"
        if path.exists():
            yield load_result(path)
        else:
            result = _file_result(source, file)
            store_result(path, result)
            yield result


def _file_result(source: Path, file: str) -> FileResult:
    """Run a test file, and failed tests again."""
    result = run_file(source, file)
    if result.outcome == "failed":
        result = run_again(source, result)
    return result


def main(argv: list[str]) -> int:
    """Print the report, and return 1 if a file failed."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("source", type=Path, help="folder of Mininet's source")
    parser.add_argument("files", nargs="*", help="test files, such as mininet/test/test_nets.py")
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="store each file's result here, and do not run a file whose result is stored",
    )
    parser.add_argument("--output", action="store_true", help="print what failed files print")
    arguments = parser.parse_args(argv)
    source = arguments.source.resolve()
    files = test_files(source)
    if not files:
        print(f"{source}: no tests of Mininet; give the folder of its source", file=sys.stderr)
        return 2
    exit_code = 0
    for result in results(source, arguments.files or files, arguments.store):
        print(result.line(), flush=True)
        if result.outcome == "failed":
            exit_code = 1
            if arguments.output:
                print(result.output)
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
