"""The set-up as a product: provision.sh against stand-ins for apt-get and python, the pinned versions, make, the
Vagrantfile.

Nothing is installed and no network is used: the stand-ins only write down how they were called.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from testbed.tunnel.emulated.programs import PROGRAMS
from tests.helpers.paths import ROOT
from tests.helpers.signals import heed_signals

PROVISION = ROOT / "vagrant" / "provision.sh"
BASH = shutil.which("bash") or "/bin/bash"

FAKE_PYTHON = f"""#!{BASH}
case "$*" in
    *"-m venv"*) echo "venv $*" >>"$CALLS"; for d; do :; done
        mkdir -p "$d/bin"; cp "$0" "$d/bin/python"; : >"$d/pyvenv.cfg" ;;
    *"-m pip install"*) echo "pip start $PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT" >>"$CALLS"; sleep "${{PIP_SECONDS:-0}}"; echo "pip end $*" >>"$CALLS"
        exit "${{PIP_EXIT:-0}}" ;;
    --version) echo "Python 3.11.0" ;;
esac
exit 0
"""
FAKE_APT = f"""#!{BASH}
echo "apt-get $*" >>"$CALLS"
echo "chatter of apt"
exit "${{APT_EXIT:-0}}"
"""


class Machine:
    """A folder standing for a machine: its own PATH in front, its own environment folder, the calls that were made."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        self.venv = folder / "environment"
        self.add("python3", FAKE_PYTHON)
        self.add("apt-get", FAKE_APT)
        self.environ = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "CALLS": str(self.calls_file),
            "TESTBED_VENV": str(self.venv),
            "TESTBED_SYSTEM_PACKAGES": "no",
        }

    def add(self, name: str, text: str) -> None:
        program = self.programs / name
        program.write_text(text)
        program.chmod(0o755)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BASH, str(PROVISION), *arguments],
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_signals,
        )

    def provision(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environ)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def calls(self, word: str) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith(word)]


def workers(machine: Machine) -> list[str]:
    """Return the calls of pytest that run tests; others compile tests and kernels before."""
    others = ("--collect-only", "build_kernels")
    return [call for call in machine.calls("python") if not any(word in call for word in others)]


def wait_for_call(machine: Machine, word: str) -> None:
    deadline_s = time.monotonic() + 60
    while not machine.calls(word) and time.monotonic() < deadline_s:
        time.sleep(0.01)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_first_run_makes_the_environment_and_installs_the_pinned_package(machine: Machine) -> None:
    assert machine.provision().returncode == 0
    assert len(machine.calls("venv")) == 1
    (install,) = machine.calls("pip end")
    assert f"-c {ROOT}/constraints.txt" in install
    assert install.endswith(f"-e {ROOT}[all]")


def test_pins_hold_for_build_tools(machine: Machine) -> None:
    machine.provision()
    pins = f"{ROOT}/constraints.txt"
    assert machine.calls("pip start") == [f"pip start {pins} {pins}"]


def test_tests_come_with_the_plugin_packages(machine: Machine) -> None:
    machine.provision("--extras", "test")
    (install,) = machine.calls("pip end")
    assert install.endswith(
        f"-e {ROOT}[all,test] -e {ROOT}/plugins/chakra -e {ROOT}/plugins/collectives"
    )


def test_a_folder_without_a_project_is_no_plugin(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    for file in (
        "vagrant/provision.sh",
        "pyproject.toml",
        "constraints.txt",
        "setup.py",
        "fec/protocol/_packets.c",
        "fec/protocol/_receiver.c",
        "plugins/one/pyproject.toml",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file.replace("one", "chakra"), root / file)
    (root / "plugins" / "__pycache__").mkdir()
    command = [BASH, str(root / "vagrant" / "provision.sh"), "--extras", "test"]
    subprocess.run(command, env=machine.environ, check=True, capture_output=True, timeout=60)
    (install,) = machine.calls("pip end")
    assert install.endswith(f"-e {root}[all,test] -e {root}/plugins/one")


def test_second_run_changes_nothing_and_is_quick(machine: Machine) -> None:
    machine.provision()
    before = machine.calls("")
    seconds = []  # a fraction of one, on a machine with nothing else to do
    while min(seconds, default=2.0) >= 2 and len(seconds) < 4:
        started_s = time.monotonic()
        assert machine.provision().returncode == 0
        seconds.append(time.monotonic() - started_s)
    assert min(seconds) < 2, seconds
    assert machine.calls("") == before


def test_an_extra_is_installed_once_when_first_asked_for(machine: Machine) -> None:
    machine.provision()
    machine.provision("--extras", "test,lint")
    machine.provision("--extras", "lint")
    machine.provision()
    installs = machine.calls("pip end")
    assert len(installs) == 2
    assert f"-e {ROOT}[all,test,lint] -e {ROOT}/plugins/chakra" in installs[1]


def test_interrupted_installation_is_started_anew(machine: Machine) -> None:
    machine.provision()
    (machine.venv / ".testbed-unfinished").touch()
    assert machine.provision().returncode == 0
    assert len(machine.calls("venv")) == 2
    assert not (machine.venv / ".testbed-unfinished").exists()


def test_killed_run_leaves_a_set_up_that_the_next_run_mends(machine: Machine) -> None:
    process = machine.start(PIP_SECONDS="2")
    wait_for_call(machine, "pip start")
    process.kill()
    process.communicate(timeout=60)
    assert machine.provision().returncode == 0
    assert (machine.venv / ".testbed-base").exists()
    assert len(machine.calls("venv")) == 2


def test_interrupted_run_exits_130_and_is_started_anew(machine: Machine) -> None:
    process = machine.start(PIP_SECONDS="1", PIP_EXIT="1")
    wait_for_call(machine, "pip start")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == "setup: interrupted"
    assert machine.provision().returncode == 0
    assert len(machine.calls("venv")) == 2


def test_failed_installation_exits_3_and_is_tried_again(machine: Machine) -> None:
    failed = machine.provision(PIP_EXIT="1")
    assert failed.returncode == 3
    assert "installing the Python packages with Python 3.11.0 failed" in failed.stderr
    assert machine.provision().returncode == 0
    assert len(machine.calls("venv")) == 1


def test_two_runs_at_once_install_once_and_one_after_the_other(machine: Machine) -> None:
    first, second = machine.start(PIP_SECONDS="0.5"), machine.start(PIP_SECONDS="0.5")
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert [line.split()[1] for line in machine.calls("pip")] == ["start", "end"]


def test_folder_that_is_no_environment_is_left_alone(machine: Machine) -> None:
    machine.venv.mkdir()
    (machine.venv / "thesis.tex").write_text("years of work")
    refused = machine.provision()
    assert refused.returncode == 2
    assert "name another folder in TESTBED_VENV" in refused.stderr.splitlines()[-1]
    assert (machine.venv / "thesis.tex").read_text() == "years of work"


def test_unavailable_system_package_is_a_warning_and_no_failure(
    machine: Machine,
) -> None:
    result = machine.provision("--programs", "no-such-program")
    assert result.returncode == 0
    (warning,) = [line for line in result.stderr.splitlines() if "no-such-program" in line]
    assert warning.endswith("tests that need them are skipped")
    assert machine.calls("apt-get") == []


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="as an ordinary user the script goes through sudo, which may ask for a password",
)
def test_missing_system_packages_are_installed_by_apt(machine: Machine) -> None:
    result = machine.provision("--programs", "no-such-program", TESTBED_SYSTEM_PACKAGES="yes")
    assert result.returncode == 0
    calls = machine.calls("apt-get")
    assert calls[0].endswith("update")
    assert any("install" in call and "no-such-program" in call for call in calls)
    assert "chatter" not in result.stderr


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="as an ordinary user the script goes through sudo, which may ask for a password",
)
@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="as an ordinary user the script goes through sudo, which may ask for a password",
)
def test_machine_without_python_is_given_one_that_can_make_an_environment(machine: Machine) -> None:
    """Mininet would bring python3 alone."""
    for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
        machine.add(name, f"#!{BASH}\nexit 127\n")
    result = machine.provision(TESTBED_SYSTEM_PACKAGES="")
    assert any("python3-venv" in call.split() for call in machine.calls("apt-get"))
    assert result.returncode == 3


def test_apt_that_fails_is_reported_and_the_rest_still_set_up(machine: Machine) -> None:
    result = machine.provision(
        "--programs", "no-such-program", TESTBED_SYSTEM_PACKAGES="yes", APT_EXIT="1"
    )
    assert result.returncode == 0
    assert "chatter of apt" in result.stderr
    assert "installation failed" in result.stderr
    assert len(machine.calls("pip end")) == 1


def test_python_too_old_exits_3_and_says_what_is_needed(machine: Machine) -> None:
    machine.add("old-python", f'#!{BASH}\n[ "$1" = -c ] && exit 1\necho "Python 3.9.2"\n')
    result = machine.provision(TESTBED_PYTHON=str(machine.programs / "old-python"))
    assert result.returncode == 3
    assert "Python 3.11 or newer" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", [("--colour",), ("--extras",), ("--extras", "test; rm"), ("--programs", "$(id)")]
)
def test_bad_argument_is_one_line_and_exit_2(machine: Machine, arguments: tuple[str, ...]) -> None:
    result = machine.provision(*arguments)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


def pinned_versions() -> dict[str, str]:
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    lines = [line.partition(" ;")[0] for line in lines]  # but for the processor that a wheel is for
    return {_canonical(name): version for name, version in (line.split("==") for line in lines)}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_pin_every_requirement_to_a_version_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(text) for text in project["dependencies"]]
    requirements += [
        Requirement(text) for extra in project["optional-dependencies"].values() for text in extra
    ]
    requirements = [
        one for one in requirements if one.name != project["name"]
    ]  # an extra made of other extras
    pinned = pinned_versions()
    for requirement in requirements:
        version = pinned.get(_canonical(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned in constraints.txt"
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{requirement} against {version}"
        )


def test_constraints_hold_names_and_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        pin = r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+( ; platform_machine == \"\w+\")?"
        assert line.startswith("#") or re.fullmatch(pin, line), line


def test_make_help_names_every_command() -> None:
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for target in ("demo", "test", "bench", "lint", "clean"):
        assert f"make {target} " in shown


RECORDING_PYTHON = f"""#!{BASH}
echo "python $*" >>"$CALLS"
case "$*" in
    *--last-failed*) exit "${{ALONE_EXIT:-0}}" ;;
    *"not emulation"*) exit "${{PARALLEL_EXIT:-0}}" ;;
    *"-m emulation and not unclocked"*) exit "${{SERIAL_EXIT:-0}}" ;;
    *"$FAILING"*) exit 1 ;;
esac
exit 0
"""


@pytest.fixture
def project(machine: Machine, tmp_path: Path) -> Path:
    """A copy of what make needs, its set-up done by a script that only records how it was called."""
    root = tmp_path / "project"
    (root / "vagrant").mkdir(parents=True)
    (root / "benchmarks").mkdir()
    (root / "results").mkdir()
    (root / ".ci").mkdir()
    (root / ".ci" / "run").write_text(f"#!{BASH}\ntrue\n")
    shutil.copy2(ROOT / "Makefile", root / "Makefile")
    (root / "benchmarks" / "group").mkdir()
    for name in ("bench_one.py", "group/bench_two.py"):
        (root / "benchmarks" / name).touch()
    script = root / "vagrant" / "provision.sh"
    script.write_text(f'#!{BASH}\necho "provision $*" >>"$CALLS"\n')
    script.chmod(0o755)
    (machine.venv / "bin").mkdir(parents=True)
    for name in ("python", "testbed", "lint-imports"):
        program = machine.venv / "bin" / name
        program.write_text(RECORDING_PYTHON.replace('echo "python', f'echo "{name}'))
        program.chmod(0o755)
    return root


def make(machine: Machine, project: Path, *words: str, **environ: str) -> int:
    environment = machine.environ | {"FAILING": "nothing fails", "WORKERS": "3"} | environ
    done = subprocess.run(
        ["make", *words], cwd=project, env=environment, capture_output=True, timeout=60, check=False
    )
    return done.returncode


@pytest.mark.parametrize(
    ("parallel", "serial", "passed"),
    [
        (0, 0, True),
        (0, 5, True),
        (5, 0, True),
        (5, 5, False),
        (0, 2, False),
        (5, 2, False),
        (2, 2, False),
        (2, 0, False),
    ],
)
def test_make_test_runs_both_halves_and_passes_where_neither_fails(
    machine: Machine, project: Path, parallel: int, serial: int, passed: bool
) -> None:
    code = make(
        machine,
        project,
        "test",
        "ARGS=-k capillary",
        PARALLEL_EXIT=str(parallel),
        SERIAL_EXIT=str(serial),
    )
    assert (code == 0) is passed
    assert machine.calls("provision") == [
        "provision --extras test,mpi,docs --programs chromium,ffmpeg,gcc,shellcheck,tshark"
    ]
    assert machine.calls("testbed") == [
        "testbed doctor --compile"
    ]  # once, before the workers of the first half would each
    first, second = workers(machine)  # the second half runs though the first has failed
    assert (
        "-n 3" in first
        and "-m not emulation or unclocked" in first
        and first.endswith("-k capillary")
    )
    assert (
        "-n 3" in second
        and "-m emulation and not unclocked" in second
        and second.endswith("-k capillary")
    )


@pytest.mark.parametrize(("alone", "passed"), [(0, True), (1, False), (5, False)])
@pytest.mark.parametrize(
    ("half", "place", "marks"),
    [
        ("PARALLEL_EXIT", 1, "not emulation or unclocked"),
        ("SERIAL_EXIT", 2, "emulation and not unclocked"),
    ],
)
def test_make_test_runs_what_failed_beside_others_once_more_alone(
    machine: Machine, project: Path, half: str, place: int, marks: str, alone: int, passed: bool
) -> None:
    code = make(machine, project, "test", "ARGS=-k capillary", ALONE_EXIT=str(alone), **{half: "1"})
    assert (code == 0) is passed
    calls = workers(machine)
    assert len(calls) == 3  # the second half runs all the same
    again = calls[place].split()
    assert (
        "--last-failed" in again
        and "-n" not in again
        and calls[place].endswith(f"-m {marks} -k capillary")
    )


def test_emulation_is_marked_in_the_file_of_the_test_itself() -> None:
    """The second half of `make test` looks at no others (tests/conftest.py)."""
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    marked = [path for path in helpers if "mark." + "emulation" in path.read_text()]
    assert marked == [ROOT / "tests" / "conftest.py"]


@pytest.mark.parametrize(
    "failing", ["ruff check", "ruff format", "check_plain_code", "mypy", "lint-imports"]
)
def test_make_lint_fails_where_one_check_fails(
    machine: Machine, project: Path, failing: str
) -> None:
    linter = machine.venv / "bin" / "lint-imports"
    linter.write_text(linter.read_text().replace('"$*"', '"lint-imports $*"'))
    assert make(machine, project, "lint") == 0
    assert len(machine.calls("python")) == 5 and len(machine.calls("lint-imports")) == 1
    assert make(machine, project, "lint", FAILING=failing) != 0


def test_make_demo_bench_and_mutants_pass_their_arguments_on(
    machine: Machine, project: Path
) -> None:
    for target in ("demo", "bench", "mutants"):
        assert make(machine, project, target, "ARGS=--quick") == 0
    assert machine.calls("testbed") == ["testbed demo --quick"]
    assert machine.calls("python") == [
        "python benchmarks/bench_one.py --quick",
        "python benchmarks/group/bench_two.py --quick",
        "python -m tests.mutants --quick",
    ]
    extras = [call.split()[1:] for call in machine.calls("provision")]
    assert extras == [[], ["--extras", "bench,mpi"], ["--extras", "test,mutants"]]


def test_make_clean_removes_caches_and_keeps_results(machine: Machine, project: Path) -> None:
    for name in (".venv", ".pytest_cache", "build"):
        (project / name).mkdir()
    (project / "results" / "run").touch()
    assert make(machine, project, "clean") == 0
    assert not any((project / name).exists() for name in (".venv", ".pytest_cache", "build"))
    assert (project / "results" / "run").exists()
    assert machine.calls("provision") == []


def test_ci_checks_style_before_it_tests_and_lets_no_test_be_skipped(
    machine: Machine, project: Path
) -> None:
    shutil.copy2(ROOT / ".ci" / "run", project / ".ci" / "run")
    required = "emulation=$TESTBED_REQUIRE_EMULATION chromium=$TESTBED_REQUIRE_CHROMIUM"
    machine.add("make", f'#!{BASH}\necho "make $* {required}" >>"$CALLS"\n[ "$*" != "$FAILING" ]\n')

    def run(failing: str) -> int:
        environment = machine.environ | {"FAILING": failing}
        return subprocess.run(
            [project / ".ci" / "run"], env=environment, timeout=60, check=False
        ).returncode

    assert run("nothing") == 0
    first, *rest = machine.calls("")
    assert (
        first
        == "provision --extras test,mpi,docs,lint --programs chromium,ffmpeg,gcc,shellcheck,tshark"
    )
    assert rest == ["make lint emulation= chromium=", "make test emulation=1 chromium=1"]
    assert run("test") != 0
    assert run("lint") != 0
    assert (
        machine.calls("")[-1] == "make lint emulation= chromium="
    )  # no tests of what has no style


def test_scripts_pass_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    command = [shellcheck, str(PROVISION), str(ROOT / ".ci" / "run")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout


def test_vagrantfile_is_valid(tmp_path: Path) -> None:
    vagrant = shutil.which("vagrant")
    if vagrant is None:
        pytest.skip("vagrant is not installed")
    environ = {**os.environ, "VAGRANT_HOME": str(tmp_path), "VAGRANT_CWD": str(ROOT / "vagrant")}
    environ |= {"VAGRANT_DOTFILE_PATH": str(tmp_path / "state"), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    command = [vagrant, "validate", "--ignore-provider"]
    result = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stdout + result.stderr


def _rsync_arguments() -> list[str]:
    text = (ROOT / "vagrant" / "Vagrantfile").read_text()
    arguments = re.search(r"rsync__args: \[(.*?)\]", text, re.DOTALL)
    assert arguments is not None
    return re.findall(r'"([^"]+)"', arguments[1])


def test_copy_to_the_guest_keeps_files_of_the_guest(tmp_path: Path) -> None:
    """Copy twice as ``vagrant up`` and ``vagrant rsync`` do, with changes in the guest between."""
    if shutil.which("rsync") is None:
        pytest.skip("rsync is not installed")
    host = tmp_path / "host"
    guest = tmp_path / "guest"
    host.mkdir()
    (host / "module.py").write_text("first")
    (host / "README").write_text("first")
    copy = ["rsync", *_rsync_arguments(), f"{host}/", f"{guest}/"]
    subprocess.run(copy, check=True, capture_output=True, timeout=60)
    (guest / "study.py").write_text("a study made in the guest")
    (guest / "README").write_text("notes of the guest")
    newer_s = time.time() + 60
    os.utime(guest / "README", (newer_s, newer_s))
    (guest / "module.py").write_text("changed in the guest")
    (host / "module.py").write_text("second")
    os.utime(host / "module.py", (newer_s, newer_s))
    subprocess.run(copy, check=True, capture_output=True, timeout=60)
    assert (guest / "study.py").read_text() == "a study made in the guest"
    assert (guest / "README").read_text() == "notes of the guest"
    assert (guest / "module.py").read_text() == "second"
    assert (guest / ".replaced" / "module.py").read_text() == "changed in the guest"


@pytest.mark.parametrize("variable", ["TESTBED_CPUS", "TESTBED_MEMORY_MB"])
@pytest.mark.parametrize("value", ["two", "0", "-1", "1.5", ""])
def test_vagrantfile_names_a_wrong_variable(variable: str, value: str) -> None:
    """Run the lines above ``Vagrant.configure`` with Ruby."""
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("ruby is not installed")
    head = (ROOT / "vagrant" / "Vagrantfile").read_text().partition("Vagrant.configure")[0]
    environ = os.environ | {variable: value}
    result = subprocess.run(
        [ruby, "-e", head], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode != 0
    assert result.stderr.startswith(f"{variable}={value} is not a whole number of at least ")


def test_virtual_machine_runs_the_setup_script_outside_the_synced_folder() -> None:
    text = (ROOT / "vagrant" / "Vagrantfile").read_text()
    assert "/vagrant/vagrant/provision.sh --vm" in text
    venv = re.search(r'"TESTBED_VENV" => "([^"]+)"', text)
    assert venv is not None
    assert not venv[1].startswith("/vagrant")


def test_every_program_of_a_paced_disk_is_installed() -> None:
    """A minimal Debian 13 has no e2fsprogs."""
    started = set(
        re.findall(
            r'_run\("([\w.]+)"', (ROOT / "testbed/striping/emulated/paced_disk.py").read_text()
        )
    )
    named = set(re.findall(r"[\s(]([\w.-]+):[a-z0-9-]+", PROVISION.read_text()))
    assert {"mkfs.ext4", "losetup", "mount"} <= started and started - {"umount"} <= named


def test_every_program_that_a_tunnel_carries_is_installed() -> None:
    """A minimal Debian has no wget."""
    text = PROVISION.read_text()
    needed = set(re.findall(r"[\s(]([\w.-]+):[a-z0-9-]+", text))
    optional = set(
        re.findall(r"--programs ([\w,-]+)", (ROOT / "Makefile").read_text())[0].split(",")
    )
    assert set(PROGRAMS.values()) <= needed | optional


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda path: path.stem
)
def test_a_benchmark_imports_only_modules_that_exist(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else imports them: a module that is renamed is missed only when one runs."""
    monkeypatch.syspath_prepend(path.parent)
    imported = [
        node.module for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)
    ]
    assert [name for name in imported if name and find_spec(name) is None] == []
