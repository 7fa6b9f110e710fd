"""Which extra of this package installs what an import did not find: the core is small, and what only some commands need is left out.

``pip install 'parallel-communications-testbed[all]'`` installs every extra that a run can need.
"""

from __future__ import annotations

from importlib.util import find_spec

from testbed.errors import CapabilityError

DISTRIBUTION = "parallel-communications-testbed"
EXTRA_OF = {
    "mininet": "emulation",
    "os_ken": "emulation",
    "scapy": "emulation",
    "fsspec": "files",
    "mpi4py": "mpi",
    "cryptography": "campaigns",
    "dask": "campaigns",
    "distributed": "campaigns",
    "pyarrow": "campaigns",
    "ortools": "schedulers",
    "matplotlib": "figures",
    "mpl_toolkits": "figures",
    "svglib": "figures",
    "shtab": "completion",
    "raptorq": "codes",
    "topohub": "networks",
    "yaml": "networks",
    "pymetis": "machines",
    "pandas": "notebooks",
    "aiohttp": "live",
    "prometheus_client": "live",
}
"""Module -> the extra that installs it (pyproject.toml); a module of several extras stands with the smallest of them."""


def pip_command(extra: str) -> str:
    """What to type to have an extra.

    >>> pip_command("schedulers")
    "pip install 'parallel-communications-testbed[schedulers]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def missing_extra(error: ImportError) -> CapabilityError | None:
    """The error to report where an import failed for want of an extra; None where it failed for anything else.

    >>> print(missing_extra(ModuleNotFoundError("No module named 'ortools'", name="ortools.sat")))
    the Python package ortools is not installed; pip install 'parallel-communications-testbed[schedulers]'
    """
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module not in EXTRA_OF:
        return None
    return CapabilityError(f"the Python package {module} is not installed; {pip_command(EXTRA_OF[module])}")


def installed(module: str) -> bool:
    """Whether a top-level module can be imported, without importing it."""
    return find_spec(module) is not None
