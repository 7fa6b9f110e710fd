"""What a gauge tells of this machine while something keeps it busy, and while nothing does."""

from __future__ import annotations

import subprocess
import sys
import time

from testbed.emulation.machine.machine_strain import StrainGauge

BUSY = "import threading\ndef turn():\n    while True: pass\nfor _ in range(3): threading.Thread(target=turn, daemon=True).start()\nturn()"


def test_the_busiest_task_is_told_and_no_task_is_more_than_one_processor() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            time.sleep(0.3)
            with StrainGauge() as gauge:
                before_s = time.process_time()
                time.sleep(0.6)
                own_s = time.process_time() - before_s
        finally:
            process.kill()
    strain = gauge.strain
    assert strain is not None
    assert strain.busiest_task  # this process, or what else keeps the machine busy
    assert 0.1 < strain.busiest_task_fraction < 1.2, "threads that take turns are one task"
    assert 0 <= strain.stolen_fraction <= strain.cpu_fraction <= 1 and strain.cpu_fraction > 0
    assert own_s < 0.3, "the gauge itself rests"


def test_lateness_and_stalls_are_told() -> None:
    with StrainGauge() as gauge:
        time.sleep(0.1)
    strain = gauge.strain
    assert strain is not None
    assert 0 <= strain.mean_lateness_s <= strain.worst_lateness_s
    assert strain.stalled_fraction is None or strain.stalled_fraction >= 0
