"""A trial on real switches: one network, and over it each rival with the same programs and faults."""

import itertools
import operator
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.errors import CapabilityError
from testbed.faults.fault import FaultTimes
from testbed.machines.adapters.platform import Here, here, timely
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import wire
from testbed.openflow.rules import Rules, split_rules
from testbed.stream.emulated.watching import watch_run
from testbed.tunnel.emulated import programs
from testbed.tunnel.emulated.tunnel import RunningTunnel, running_tunnel
from testbed.tunnel.emulated.voice import voice_process
from testbed.tunnel.plan import Mode
from testbed.tunnel.trial import ENDS_S, RivalRun, TrialMeasurements, TrialPlan
from topologies import JsonObject

_LEAD_S, _REST_S = 0.5, 1.5


def emulate_trial(
    plan: TrialPlan, report_progress: ReportProgress | None = None
) -> TrialMeasurements:
    """Every rival in turn; inside the sandbox only. CapabilityError where no workload's program is there."""
    report = report_progress or (lambda _: None)
    missing = programs.missing_programs(plan.workloads)
    plan = replace(plan, workloads=tuple(name for name in plan.workloads if name not in missing))
    if not plan.workloads and not plan.command:
        raise CapabilityError(
            f"a tunnel's {', '.join(missing)}: install {' and '.join(sorted(set(missing.values())))}"
        )
    wiring = wire(plan.network, [plan.source, plan.sink])
    with (
        TemporaryDirectory(prefix="testbed-tunnel-") as name,
        here(wiring) as platform,
        timely(platform),
    ):
        folder = Path(name)
        if "video" in plan.workloads:
            report(Progress(doing="making the clip"))
            programs.make_clip(folder, plan.duration_s - ENDS_S)
        if "tcp" in plan.workloads:
            programs.make_file(folder, plan)
        trial = _Trial(plan, platform, folder, report)
        return TrialMeasurements(
            runs=tuple(trial.run(rival) for rival in plan.rivals), missing=missing
        )


class _Trial:
    def __init__(
        self, plan: TrialPlan, platform: Here, folder: Path, report: ReportProgress
    ) -> None:
        self._plan, self._platform, self._folder, self._report = plan, platform, folder, report
        self._numbers = itertools.count(1)
        self._hosts = tuple(platform.wiring.host_at(node) for node in (plan.source, plan.sink))

    def run(self, rival: str) -> RivalRun:
        """One rival: tcp, which fills the links, after all else."""
        together = tuple(name for name in self._plan.workloads if name != "tcp")
        found = (
            self._over(rival, together, self._plan.command)
            if together or self._plan.command
            else None
        )
        if "tcp" in self._plan.workloads:
            alone = self._over(rival, ("tcp",), ())
            more = {
                name: programs.lacking(workload)
                or self._over(rival, (workload,), ()).programs[workload]
                for name, workload in (("bbr", programs.BBR), ("wget", programs.FETCH))
            }
            tcp = {"tcp": {**alone.programs["tcp"], **more}}
            found = replace(
                alone if found is None else found, programs={**(found or alone).programs, **tcp}
            )
        assert found is not None
        return found

    def _over(self, rival: str, workloads: tuple[str, ...], command: tuple[str, ...]) -> RivalRun:
        """These workloads at once over one rival."""
        source, sink = self._hosts
        with ExitStack() as stack:
            before = self._frames()
            tunnel = self._tunnel(stack, rival)
            address = sink.ip if tunnel is None else tunnel.addresses[self._plan.sink]
            place = programs.Place(
                net=self._platform.network,
                source=source,
                sink=sink,
                address=address,
                folder=self._folder,
            )
            measured, start_s, faults, lag_s = self._measured(place, rival, workloads, command)
            ends = {} if tunnel is None else tunnel.results(start_s)
            packets, queue_drops, machine_drops = map(operator.sub, self._frames(), before)
        counted = [end["counters"] for end in ends.values()]
        return RivalRun(
            rival=rival,
            source=ends.get(self._plan.source),
            sink=ends.get(self._plan.sink),
            programs=measured,
            faults=faults,
            lag_s=max(lag_s, *(one["worst_receive_lag_s"] for one in counted))
            if counted
            else lag_s,
            packets=packets,
            queue_drops=queue_drops,
            machine_drops=machine_drops
            + sum(one["socket_drops"] + one["device_drops"] for one in counted),
        )

    def _frames(self) -> tuple[int, int, int]:
        """Frames so far that left the switches of both ends, that found a queue of a link full, and a switch's
        socket."""
        counted, ends = self._platform.network.link_counters(), (self._plan.source, self._plan.sink)
        left = sum(sent for link, (sent, _, _) in counted.items() if link[0] in ends)
        return (
            left,
            sum(drops for _, _, drops in counted.values()),
            sum(self._platform.switch_drops()),
        )

    def _tunnel(self, stack: ExitStack, rival: str) -> RunningTunnel | None:
        if rival == "direct":
            rules, _ = split_rules(self._platform.wiring, self._plan.direct, self._plan.direct_back)
            stack.enter_context(self._installed((rules, ())))
            return None
        plan = replace(self._plan.tunnel, mode=cast(Mode, rival))
        number = next(self._numbers)
        return stack.enter_context(
            running_tunnel(self._platform.network, plan, number, self._installed)
        )

    @contextmanager
    def _installed(self, rules: Rules) -> Iterator[None]:
        number = next(self._numbers)
        self._platform.install(rules[0], plan_id=number)
        self._platform.route(rules[1])
        try:
            yield
        finally:
            self._platform.controller.remove(number)
            self._platform.route(rules[1], add=False)

    def _measured(
        self,
        place: programs.Place,
        rival: str,
        workloads: tuple[str, ...],
        command: tuple[str, ...],
    ) -> tuple[JsonObject, float, tuple[FaultTimes, ...], float]:
        """What each program measured, time zero, when faults were in force since, and how late the voice was sent at
        worst."""
        plan = self._plan
        with ExitStack() as stack:
            voice = None
            if "voip" in workloads:
                hosts = place.source, place.sink
                voice = voice_process(place.net, stack, hosts, place.address, plan.duration_s)
                stack.callback(voice.close)
                voice.wait_until_ready()
            for name in workloads:
                if (words := programs.listening(place, name)) is not None:
                    stack.enter_context(place.program(place.sink, *words))
                    programs.wait_until_listening(place, name)
            time.sleep(_LEAD_S)
            start_s = time.monotonic() + _LEAD_S
            if voice is not None:
                voice.begin(start_s)
            schedule = stack.enter_context(
                FaultSchedule(self._platform.network, plan.faults, start_s)
            )
            time.sleep(max(0.0, start_s - time.monotonic()))
            started = [
                stack.enter_context(
                    place.program(place.source, programs.sending(plan, place, name), name)
                )
                for name in workloads
                if name in programs.PROGRAMS
            ]
            own = self._command(stack, place, command) if command else None
            watch_run(start_s, plan.duration_s, schedule, self._report, doing=f"running {rival}")
            code = None if own is None else programs.ended(own)
            programs.wait_for(started, start_s + plan.duration_s + _REST_S)
            found = {
                name: programs.outcome(plan, place, name)
                for name in workloads
                if name in programs.PROGRAMS
            }
            if own is not None:
                found["command"] = {"exit_code": code}
            lag_s = 0.0
            if voice is not None:
                result = voice.result()
                lag_s, found["voip"] = (
                    result["lag_s"],
                    {name: result[name] for name in ("sent_s", "delay_s")},
                )
            schedule.join()
            return found, start_s, schedule.times(), lag_s

    def _command(
        self, stack: ExitStack, place: programs.Place, words: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        """The user's program, on this terminal's error output, so that nothing is mixed into a document."""
        argv = [word.replace("{peer}", place.address) for word in words]
        program = place.net.run_in_host(
            place.source.name, argv, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        stack.callback(program.wait)
        stack.callback(program.kill)
        return program
