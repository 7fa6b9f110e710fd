"""The build backend of the package: that of setuptools, and compiled routines in wheels.

``build_kernels.py`` makes the compiled routines. It runs the package itself, so that building a
wheel requires the dependencies of the package. Without gcc, or on another processor, the wheel has
no compiled routines, and numba compiles them when they are first used.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the requirements of building a wheel, among them the dependencies of the package."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *project["dependencies"]]


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Compile the routines into the source tree, build the wheel, and return its name."""
    # The wheel is complete without compiled routines, so that a failure is no error.
    subprocess.run([sys.executable, str(Path(__file__).with_name("build_kernels.py"))], check=False)
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
