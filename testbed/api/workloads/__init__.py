"""The list of our workloads that are commands; ``known`` finds the workload of a plan, plug-ins' too.

A new workload adds one line here. Nothing of it is imported to say which commands there are.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from testbed.model.workload import Workload


class Listed(NamedTuple):
    """``summary``: what ``testbed --help`` says of the command; ``module``, ``value``: where its ``Workload`` is."""

    summary: str
    module: str
    value: str


LISTED: dict[str, Listed] = {
    "bulk": Listed("bulk transfers frame by frame over circuits", "testbed.bulk.workload", "BULK"),
    "download": Listed(
        "send a file over many paths to a host behind a slow last-mile link", "testbed.download.workload", "DOWNLOAD"
    ),
    "wavelengths": Listed("assign wavelengths in an optical cloud", "testbed.wavelengths.workload", "WAVELENGTHS"),
    "simulate": Listed("simulate an interconnection network", "testbed.simulation.workload", "SIMULATION"),
    "sfio": Listed("striped files over an emulated network", "testbed.striping.workload", "STRIPING"),
}
"""Command -> its workload, in the order of ``testbed --help``."""


def load(command: str) -> Workload[Any, Any]:
    """The workload of a command of ``LISTED``."""
    listed = LISTED[command]
    workload: Workload[Any, Any] = getattr(import_module(listed.module), listed.value)
    return workload
