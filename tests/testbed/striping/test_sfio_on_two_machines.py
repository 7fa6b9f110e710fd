"""A striped file over two machines: its bytes on the disks of both, a crossing cable cut and mended, and runs that were
spoilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox

OBSTACLE = probe_sandbox(clock_offset_s=1)
pytestmark = [pytest.mark.emulation, pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))]
NETWORK = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
PLACE = {"machines": [["s1", "s4", "s5", "s6"], ["s2", "s3", "s7", "s8"]]}
"""Two compute nodes and two I/O nodes on each."""
CROSSING = ("s1", "s2", 0)
FILE_BYTES = 1_600_000


def subfiles() -> dict[str, dict[int, Path]]:
    """I/O node -> device -> its subfile there, as the processes of all machines see their file systems."""
    from testbed.emulation.sandbox.sandbox import require_sandbox

    found: dict[str, dict[int, Path]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = list(Path(f"{process}/root{require_sandbox()}/tmp").glob("subfiles-*/*/data"))
            for file in files:
                found.setdefault(file.parent.name, {})[file.stat().st_dev] = file
        except OSError:  # it has ended
            continue
    return found


def striped(how: str) -> dict[str, Any]:
    """A file written and read; ``how``: "cut" (a crossing cable, in the write), or spoilt before it is read: "byte"
    (one of a subfile, on the disk of the machine that holds it), "loss" (5 % between the machines), "delay" (30 ms
    more)."""
    from testbed.errors import InvalidRunError
    from testbed.faults.fault import Fault
    from testbed.machines.machines_request import MachinesRequest
    from testbed.striping.judgement import judge_striping
    from testbed.striping.workload import run_striping, striping_plan
    from tests.helpers.poor_underlay import delay, lose_towards

    devices: dict[str, list[int]] = {}
    programs: list[Any] = []

    def before_reading(progress: Any) -> None:
        if progress.doing != "read":
            return
        there = subfiles()
        devices.update({node: list(files) for node, files in there.items()})
        if how == "loss":
            lose_towards(1, 0.05)
        if how == "delay":
            programs.append(delay(1, 0.03))
        if how == "byte":
            (file,) = there["r8"].values()
            with file.open("r+b") as subfile:
                first = subfile.read(1)
                subfile.seek(0)
                subfile.write(bytes([first[0] ^ 1]))

    faults = (Fault(link=CROSSING, start_s=0.2, stop_s=5.0),) if how == "cut" else ()
    plan = striping_plan(
        NETWORK, 4, 4, file_bytes=FILE_BYTES, operation="both", link_rate_bps=5e6, faults=faults
    )
    asked = MachinesRequest(count=2, place=PLACE)
    try:
        run = run_striping(plan, Path("unused"), machines=asked, report_progress=before_reading)
    except InvalidRunError as error:
        if how not in ("loss", "delay"):
            raise
        return {"reason": str(error)}
    finally:
        for program in programs:
            program.kill()
            program.communicate()
    judged = judge_striping(plan, run)
    if judged.verdict.invalid is not None:
        raise InvalidRunError(judged.verdict.invalid)
    failed = [check.name for check in judged.verdict.checks if not check.passed]
    errors = [len(record.errors) for record in run.operations]
    return {
        "code": judged.verdict.exit_code,
        "failed": failed,
        "devices": devices,
        "errors": errors,
        "spread": judged.document["machines"],
    }


@pytest.mark.soak
def test_failed_crossing_cable_breaks_processes_and_the_file_recovers(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(striped, "cut")
    assert found["code"] == 0 and found["failed"] == [], found["failed"]
    assert found["errors"][0] > 0 and found["errors"][1:] == [0, 0]
    spread = found["spread"]
    assert 0 < spread["seconds_uncertainty_s"] < 0.01 and spread["errors_undecided"] == 0
    where = {node: one for node, (one,) in found["devices"].items()}
    assert where["r0"] == where["r12"] != where["r4"] == where["r8"], (
        "a disk of its own on each machine"
    )


@pytest.mark.long
def test_a_byte_changed_on_a_machines_disk_fails_the_verdict(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(striped, "byte")
    assert found["code"] == 1
    assert found["failed"] == ["read: every process read the right content"]


@pytest.mark.soak
def test_loss_between_the_machines_from_the_middle_on_makes_a_run_invalid(
    sandboxed: Callable[..., Any],
) -> None:
    assert "the network between the machines lost" in sandboxed(striped, "loss").get("reason", "")


@pytest.mark.soak
def test_delay_between_the_machines_from_the_middle_on_makes_a_run_invalid(
    sandboxed: Callable[..., Any],
) -> None:
    assert "slower for a second" in sandboxed(striped, "delay").get("reason", "")
