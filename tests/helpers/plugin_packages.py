"""The packages in ``plugins/`` as installed ones: pip leaves a package and its description, and both are put where
Python looks."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from tests.helpers.paths import ROOT

PLUGINS = ROOT / "plugins"


def describe(project_file: Path, directory: Path) -> None:
    """Write what pip keeps of a package (``*.dist-info``) into the directory: its name, version and entry points."""
    project = tomllib.loads(project_file.read_text())["project"]
    description = directory / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    description.mkdir()
    (description / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (description / "entry_points.txt").write_text("\n".join(groups))


def find_packages_of_the_tree(directory: Path) -> None:
    """This process finds them from now on, in the tree before those that are installed; descriptions go into the
    directory."""
    for project_file in sorted(PLUGINS.glob("*/pyproject.toml")):
        describe(project_file, directory)
        sys.path.insert(0, str(project_file.parent))
    sys.path.insert(0, str(directory))
