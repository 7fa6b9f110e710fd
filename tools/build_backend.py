"""The build backend of the package: setuptools', and compiled routines in wheels.

They are made by ``build_kernels.py``, which runs the package itself, so a wheel is built with what
the package depends on. Without gcc, or for another processor, the wheel has no compiled routines:
numba then compiles at the first use.
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
    """Return what building a wheel needs: the dependencies of the package."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *project["dependencies"]]


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Compile the routines into the source tree, then build the wheel; return its name."""
    subprocess.run([sys.executable, str(Path(__file__).with_name("build_kernels.py"))], check=False)
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
