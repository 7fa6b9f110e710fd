"""The extras of this package, which install modules that only some commands need.

If an import fails, the error names the extra that installs the module. The extra ``all`` installs
every extra that a run can need.
"""

import functools
import json
import shlex
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from testbed.errors import CapabilityError

DISTRIBUTION = "parallel-communications-testbed"
# Module -> the extra that installs it (pyproject.toml). If several do, it is the smallest one.
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
    "argcomplete": "completion",
    "raptorq": "codes",
    "topohub": "networks",
    "yaml": "networks",
    "pymetis": "machines",
    "pandas": "notebooks",
    "aiohttp": "live",
    "prometheus_client": "live",
}


def pip_command(extra: str) -> str:
    """Return the command that installs an extra into the environment of this process."""
    # The import takes a while, and only this function needs it.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        direct_url = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        # The sources are used without being installed.
        folder = Path(__file__).resolve().parent.parent
        direct_url = json.dumps({"url": folder.as_uri(), "dir_info": {}})
    return command_for(extra, direct_url)


def pip_install(requirement: str) -> str:
    """Return the command that installs a requirement into the environment of this process.

    The command names the environment's Python, because the ``pip`` on a user's PATH may belong to
    another environment, or not exist.
    """
    return f"{shlex.quote(sys.executable)} -m pip install {requirement}"


def command_for(extra: str, direct_url: str | None) -> str:
    """Return the command that installs an extra of a package from where the package came.

    Args:
        extra: The name of the extra.
        direct_url: The origin that pip recorded (PEP 610), or None for a package index.

    >>> folder = '{"url": "file:///home/ann/testbed", "dir_info": {"editable": true}}'
    >>> command_for("schedulers", folder).partition(" -m ")[2]
    "pip install -e '/home/ann/testbed[schedulers]'"
    >>> command_for("schedulers", None).partition(" -m ")[2]
    "pip install 'parallel-communications-testbed[schedulers]'"
    """
    origin: dict[str, Any] = json.loads(direct_url or "{}")
    if "dir_info" in origin:
        folder = unquote(urlsplit(str(origin["url"])).path)
        requirement = shlex.quote(f"{folder}[{extra}]")
        if origin["dir_info"].get("editable"):
            requirement = f"-e {requirement}"
        return pip_install(requirement)
    source = str(origin.get("url", ""))
    if "vcs_info" in origin:
        source = f"{origin['vcs_info'].get('vcs')}+{source}@{origin['vcs_info'].get('commit_id')}"
    suffix = f" @ {source}" if source else ""
    return pip_install(shlex.quote(f"{DISTRIBUTION}[{extra}]{suffix}"))


def installed_version() -> str:
    """Return the version of the installed package, or "0" for sources that are not installed."""
    # The import takes a while, and only this function needs it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"


def missing_extra(error: ImportError) -> CapabilityError | None:
    """Return the error to report for an import that failed because an extra is not installed.

    Returns:
        None if the import failed for another reason.

    >>> error = ModuleNotFoundError("No module named 'ortools'", name="ortools.sat")
    >>> str(missing_extra(error)).partition(";")[0]
    'the Python package ortools is not installed'
    """
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module not in EXTRA_OF:
        return None
    return CapabilityError(
        f"the Python package {module} is not installed; {pip_command(EXTRA_OF[module])}"
    )


def installed(module: str) -> bool:
    """Return whether a top-level module can be imported, without importing it."""
    return find_spec(module) is not None


P = ParamSpec("P")
R = TypeVar("R")


def with_missing_extra_error(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a CapabilityError for an import that lacks an extra."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ImportError as error:
            capability_error = missing_extra(error)
            if capability_error is None:
                raise
            raise capability_error from error

    return call
