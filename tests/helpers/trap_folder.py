"""A folder full of files that Python, or a library, would run or read as code if it looked there."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

_NOTES_IT = """
import sys
with open({log!r}, "a") as log:
    log.write(__name__ + " in " + repr(open("/proc/self/cmdline").read()) + chr(10))
raise ImportError("a module of the current directory was imported")
"""


def fill_with_traps(folder: Path, log: Path) -> None:
    """Fill the folder with a module for each name that Python and its packages have.

    A module that is imported notes its name and the command line of its process in the log.
    """
    folder.mkdir(parents=True)
    names = {*sys.stdlib_module_names, *packages_distributions()}
    names |= {"testbed", "fec", "sfio_emu", "topologies", "experiments"}
    names |= {"sitecustomize", "usercustomize", "brotli", "uvloop", "zstandard"}
    text = _NOTES_IT.format(log=str(log))
    for name in names:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(text)
    # os_ken looks for a file that is called like the module that it is to load.
    for name in _dotted_modules("os_ken"):
        (folder / name).write_text(text)
    (folder / "matplotlibrc").write_text("axes.facecolor: red\n")
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {log}.numba\n")


def _dotted_modules(package: str) -> list[str]:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return []
    root = Path(spec.submodule_search_locations[0])
    files = root.rglob("*.py")
    return [".".join(file.relative_to(root.parent).with_suffix("").parts) for file in files]
