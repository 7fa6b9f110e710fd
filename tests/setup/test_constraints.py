"""The pinned versions can be installed with the oldest and the newest Python that the project names."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.helpers.paths import ROOT

OLDEST = "3.11.0"
NEWEST = "3.14.0"
# The package index has some of their packages as source archives only, for one of these Pythons at
# least, and pip does not resolve these for another Python than its own.
SOURCE_ONLY_EXTRAS = {"all", "bench", "emulation", "mutants", "test"}


def pins() -> dict[str, str]:
    """Return the pinned version of each package, by its normalised name."""
    text = (ROOT / "constraints.txt").read_text()
    return {
        _normalised(name): version for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", text)
    }


def extras() -> list[str]:
    """Return the names of the extras of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted(project["optional-dependencies"])


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("python", [OLDEST, NEWEST])
def test_installed_pins_allow_the_python(python: str) -> None:
    """Compare with the metadata of what is installed: this needs no package index."""
    versions = pins()
    refusing = []
    for distribution in distributions():
        name = _normalised(distribution.metadata["Name"])
        required = distribution.metadata.get("Requires-Python")
        if versions.get(name) != distribution.version or required is None:
            continue
        if python not in SpecifierSet(required):
            refusing.append(f"{name}=={distribution.version} requires Python {required}")
    assert refusing == []


def _resolve(folder: Path, python: str, *requirements: str) -> subprocess.CompletedProcess[str]:
    """Let pip look for the packages as it would for this Python, without installing any."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--disable-pip-version-check", "--python-version", python]
    command += ["--target", str(folder), *requirements]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", [OLDEST, NEWEST])
def test_index_has_every_pin_for_the_python(tmp_path: Path, python: str) -> None:
    result = _resolve(tmp_path, python, "--no-deps", "-r", "constraints.txt")
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", [OLDEST, NEWEST])
@pytest.mark.parametrize("extra", [name for name in extras() if name not in SOURCE_ONLY_EXTRAS])
def test_extra_resolves_within_the_pins(tmp_path: Path, python: str, extra: str) -> None:
    options = ["--only-binary=:all:", "-c", "constraints.txt"]
    result = _resolve(tmp_path, python, *options, f".[{extra}]")
    assert result.returncode == 0, result.stderr[-2000:]
