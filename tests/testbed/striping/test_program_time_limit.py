"""A program that takes longer than it may is ended with an exit code of its own: nothing was wrong with the command."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.commands.parsing import reported
from testbed.emulation.attach.program_group import ProgramGroup
from testbed.errors import TimeLimitError
from testbed.striping.emulated.program_run import Place, start_ranks


def test_a_program_is_ended_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    net: Any = SimpleNamespace(
        run_in_host=lambda host, command, **options: subprocess.Popen(command, **options)
    )
    places = [
        Place(rank=n, node=f"t{n}", host=f"h{n}", ip=f"10.0.0.{n + 1}", environment={})
        for n in range(2)
    ]
    ended: list[subprocess.Popen[bytes]] = []

    def act() -> int:
        programs = start_ranks(net, places, [sys.executable, "-c", "import time; time.sleep(60)"])
        ended.extend(program.child for program in programs)
        with ProgramGroup(programs) as ranks:
            ranks.wait(0.2)
        return 0

    start_s = time.monotonic()
    assert reported(act) == TimeLimitError.exit_code == 124
    assert time.monotonic() < start_s + 10
    assert all(process.poll() is not None for process in ended)
    assert (
        capsys.readouterr().err
        == "testbed: the program was ended after 0.2 s; raise --time-limit\n"
    )
