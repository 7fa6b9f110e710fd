"""Runs a trial on emulated switches.

The rivals are the modes that a trial compares (``testbed.tunnel.options.RIVALS``). They run one
after another in one network, with the same programs and faults.
"""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
from testbed.tunnel.plan import EndLog, Mode
from testbed.tunnel.trial import ENDS_S, RivalRun, TrialMeasurements, TrialPlan
from topologies import Json, JsonObject

# Pause before the start time is set, and from then to the start.
_LEAD_S = 0.5
# How long the programs may run beyond the end of a run.
_OVERTIME_S = 1.5


def emulate_trial(
    plan: TrialPlan, report_progress: ReportProgress | None = None
) -> TrialMeasurements:
    """Run every rival in turn; works inside the sandbox only.

    Raises:
        CapabilityError: None of the programs of the workloads is installed.
    """
    report = report_progress or (lambda _: None)
    missing = programs.missing_programs(plan.workloads)
    workloads = [name for name in plan.workloads if name not in missing]
    plan = replace(plan, workloads=tuple(workloads))
    if not plan.workloads and not plan.command:
        packages = " and ".join(sorted(set(missing.values())))
        raise CapabilityError(f"a tunnel's {', '.join(missing)}: install {packages}")
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
        runs = tuple(trial.run(rival) for rival in plan.rivals)
        return TrialMeasurements(runs=runs, missing=missing)


@dataclass(frozen=True)
class _ProgramRun:
    """The measurements of programs that ran at the same time.

    Attributes:
        figures: The figures of each program, by workload.
        start_s: Time zero of the run, on the monotonic clock.
        faults: When each fault was active.
        lag_s: Maximum delay of a voice packet by its source.
    """

    figures: JsonObject
    start_s: float
    faults: tuple[FaultTimes, ...]
    lag_s: float


class _Trial:
    """The runs of a trial in one network."""

    def __init__(
        self, plan: TrialPlan, platform: Here, folder: Path, report: ReportProgress
    ) -> None:
        self._plan = plan
        self._platform = platform
        self._folder = folder
        self._report = report
        # Numbers of tunnels and of installed plans, unique in this network.
        self._numbers = itertools.count(1)
        self._source = platform.wiring.host_at(plan.source)
        self._sink = platform.wiring.host_at(plan.sink)

    def run(self, rival: str) -> RivalRun:
        """Run all workloads over one rival.

        The workload tcp runs alone, after the others, because it fills the links.
        """
        together = tuple(name for name in self._plan.workloads if name != "tcp")
        if "tcp" not in self._plan.workloads:
            return self._run_together(rival, together, self._plan.command)
        shared_run = None
        if together or self._plan.command:
            shared_run = self._run_together(rival, together, self._plan.command)
        tcp_run = self._run_together(rival, ("tcp",), ())
        tcp = dict(tcp_run.programs["tcp"])
        for name, workload in (("bbr", programs.BBR), ("wget", programs.FETCH)):
            figures: Json = programs.lacking(workload)
            if not figures:
                figures = self._run_together(rival, (workload,), ()).programs[workload]
            tcp[name] = figures
        run = shared_run or tcp_run
        return replace(run, programs={**run.programs, "tcp": tcp})

    def _run_together(
        self, rival: str, workloads: tuple[str, ...], command: tuple[str, ...]
    ) -> RivalRun:
        """Run these workloads at the same time over one rival."""
        with ExitStack() as stack:
            sent_before, full_before, dropped_before = self._frames()
            tunnel = self._tunnel(stack, rival)
            address = self._sink.ip
            if tunnel is not None:
                address = tunnel.addresses[self._plan.sink]
            hosts = programs.Place(
                net=self._platform.network,
                source=self._source,
                sink=self._sink,
                address=address,
                folder=self._folder,
            )
            measured = self._run_programs(hosts, rival, workloads, command)
            ends: dict[str, EndLog] = {}
            if tunnel is not None:
                ends = tunnel.results(measured.start_s)
            sent, full, dropped = self._frames()
        lag_s = measured.lag_s
        machine_drops = dropped - dropped_before
        for end in ends.values():
            counters = end["counters"]
            lag_s = max(lag_s, counters["worst_receive_lag_s"])
            machine_drops += int(counters["socket_drops"] + counters["device_drops"])
        return RivalRun(
            rival=rival,
            source=ends.get(self._plan.source),
            sink=ends.get(self._plan.sink),
            programs=measured.figures,
            faults=measured.faults,
            lag_s=lag_s,
            packets=sent - sent_before,
            queue_drops=full - full_before,
            machine_drops=machine_drops,
        )

    def _frames(self) -> tuple[int, int, int]:
        """Return counts of frames since the network was built.

        Returns:
            The frames that left the switches of both ends, the frames dropped at a full queue of a
            link, and the frames dropped at a socket of a switch.
        """
        ends = (self._plan.source, self._plan.sink)
        sent_by_ends = 0
        queue_drops = 0
        for link, (sent, _, drops) in self._platform.network.link_counters().items():
            queue_drops += drops
            if link[0] in ends:
                sent_by_ends += sent
        return sent_by_ends, queue_drops, sum(self._platform.switch_drops())

    def _tunnel(self, stack: ExitStack, rival: str) -> RunningTunnel | None:
        """Start the tunnel of a rival; for ``direct`` install the rules of the direct path."""
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
        """Install rules and routes for the duration of the context."""
        number = next(self._numbers)
        self._platform.install(rules[0], plan_id=number)
        self._platform.route(rules[1])
        try:
            yield
        finally:
            self._platform.controller.remove(number)
            self._platform.route(rules[1], add=False)

    def _run_programs(
        self,
        hosts: programs.Place,
        rival: str,
        workloads: tuple[str, ...],
        command: tuple[str, ...],
    ) -> _ProgramRun:
        """Start the servers, then the clients and the faults together, and wait for the end."""
        plan = self._plan
        with ExitStack() as stack:
            voice = None
            if "voip" in workloads:
                ends = (hosts.source, hosts.sink)
                voice = voice_process(hosts.net, stack, ends, hosts.address, plan.duration_s)
                stack.callback(voice.close)
                voice.wait_until_ready()
            for name in workloads:
                server = programs.listening(hosts, name)
                if server is not None:
                    stack.enter_context(hosts.program(hosts.sink, *server))
                    programs.wait_until_listening(hosts, name)
            time.sleep(_LEAD_S)
            start_s = time.monotonic() + _LEAD_S
            if voice is not None:
                voice.begin(start_s)
            schedule = stack.enter_context(
                FaultSchedule(self._platform.network, plan.faults, start_s)
            )
            time.sleep(max(0.0, start_s - time.monotonic()))
            clients = {}
            for name in workloads:
                if name in programs.PROGRAMS:
                    argv = programs.sending(plan, hosts, name)
                    clients[name] = stack.enter_context(hosts.program(hosts.source, argv, name))
            user_program = None
            if command:
                user_program = self._start_command(stack, hosts, command)
            watch_run(start_s, plan.duration_s, schedule, self._report, doing=f"running {rival}")
            figures: JsonObject = {}
            exit_code = None
            if user_program is not None:
                exit_code = programs.ended(user_program)
            programs.wait_for(list(clients.values()), start_s + plan.duration_s + _OVERTIME_S)
            for name in clients:
                figures[name] = programs.outcome(plan, hosts, name)
            if user_program is not None:
                figures["command"] = {"exit_code": exit_code}
            lag_s = 0.0
            if voice is not None:
                result = voice.result()
                lag_s = result["lag_s"]
                figures["voip"] = {"sent_s": result["sent_s"], "delay_s": result["delay_s"]}
            schedule.join()
            return _ProgramRun(figures, start_s, schedule.times(), lag_s)

    def _start_command(
        self, stack: ExitStack, hosts: programs.Place, command: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        """Start the user's program at the source.

        Its output goes to standard error, because standard output may be a JSON document.
        """
        argv = [argument.replace("{peer}", hosts.address) for argument in command]
        program = hosts.net.run_in_host(
            hosts.source.name, argv, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        stack.callback(program.wait)
        stack.callback(program.kill)
        return program
