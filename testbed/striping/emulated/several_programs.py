"""A parallel program on a network over several machines: each rank and each listener where its host lies, one group for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from sfio_emu.adapters.key_files import new_key
from sfio_emu.adapters.process_group import GroupServer
from testbed.bulk.emulated.several_machines import MachineLinks
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.held.program_group import ProgramGroup
from testbed.emulation.held.service import reachable
from testbed.machines.adapters.cluster import machines_up
from testbed.machines.adapters.held_network import SpreadService
from testbed.machines.adapters.programs_on_machine import let_all_talk
from testbed.machines.adapters.relays import own_address
from testbed.machines.adapters.remote_program import programs_in_hosts
from testbed.machines.adapters.spread import SpreadNetwork, named_when_lost, placed, spread_network
from testbed.machines.asked import MachinesRequest
from testbed.model.progress import Look
from testbed.model.wiring import wire
from testbed.striping.emulated.machine_ends import ProgramShare, start_program_share
from testbed.striping.emulated.program_run import ProgramEnd, end_of, file_rules, make_directories, places_of
from testbed.striping.placement import Placement


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """``mtu`` in bytes, at most; ``shape``: hold links to their capacity; ``timeout_s`` of a silent listener; ``time_limit_s`` of the
    program; ``folder``: where it begins, on every machine; ``prefixed``: each line of output begins with its rank."""

    mtu: int = 9000
    shape: bool = True
    timeout_s: float = 2.0
    time_limit_s: float | None = None
    folder: str = "/"
    prefixed: bool = False


def run_over_machines(
    placement: Placement,
    root: Path,
    command: Sequence[str],
    asked: MachinesRequest,
    options: ProgramOptions,
    watched: Callable[[Look], AbstractContextManager[None]],
) -> ProgramEnd:
    """The command once a rank, over the machines that are asked for. ``root``: the folder of the subfiles, on each machine's own disk;
    ``watched``: what surrounds the program, with a way to ask what the links carry.

    MachineLostError, with the ranks that had ended, where a machine dies; errors as of ``ProgramNetwork.run``.
    """
    make_directories(root, placement)
    with ExitStack() as stack:
        machines = stack.enter_context(machines_up(asked))
        wiring = wire(placement.network)
        mtu = min(options.mtu, machines.widest_mtu)
        where = placed(machines, wiring, asked)
        network = stack.enter_context(
            spread_network(machines, wiring, where, mtu=mtu, shape=options.shape, controlled=False)
        )
        groups: list[ProgramGroup] = []
        stack.enter_context(named_when_lost(machines, lambda: _until_now(groups)))
        links = MachineLinks(network)
        machines.all(let_all_talk)
        reach = links.reach()
        with closing(CircuitSwitchboard(wiring, (), reach.connect, reach.forget)) as switchboard:
            switchboard.change_rules(file_rules(wiring, placement), "add")
        group = stack.enter_context(_group(machines.facts[0].address, placement))
        shares = _shares(network, placement, root, group.address)
        around = [one.result() for one in [machines.call(k, start_program_share, s) for k, s in enumerate(shares)]]
        stack.enter_context(reachable(SpreadService(network, links.streams).handlers()))
        ranks = stack.enter_context(_ranks(network, links, placement, command, options, around))
        groups.append(ranks)
        stack.enter_context(watched(network.reading))
        return end_of(ranks, group, options.time_limit_s)


def _group(towards: str, placement: Placement) -> GroupServer:
    return GroupServer(f"tcp:{own_address(towards)}:0", len(placement.compute))


def _shares(network: SpreadNetwork, placement: Placement, root: Path, group: str) -> list[ProgramShare]:
    key = new_key()
    return [
        ProgramShare(
            placement=placement,
            io=tuple(node for node in placement.io if network.machine_of(node) == k),
            root=root.absolute(),
            key=key,
            group=group,
        )
        for k in range(len(network.machines))
    ]


def _ranks(
    network: SpreadNetwork,
    links: MachineLinks,
    placement: Placement,
    command: Sequence[str],
    options: ProgramOptions,
    around: Sequence[dict[str, str]],
) -> ProgramGroup:
    places = [
        next(p for p in places_of(network.wiring, placement, options.timeout_s, around[network.machine_of(node)]) if p.rank == rank)
        for rank, node in enumerate(placement.compute)
    ]  # fmt: skip
    asked = [
        (
            network.machine_of(place.node),
            {"host": place.node, "argv": list(command), "cwd": options.folder, "env": dict(place.environment)},
        )
        for place in places
    ]
    check: Callable[[], None] = network.machines.check
    return ProgramGroup(programs_in_hosts(network, links.streams, asked), prefixed=options.prefixed, check=check)


def _until_now(groups: Sequence[ProgramGroup]) -> dict[str, object]:
    """The ranks that had begun when a machine died, and those that had ended, with their exit codes."""
    ended = {str(rank): code for group in groups for rank, code in sorted(group.ended.items())}
    return {"ranks": sum(len(group.programs) for group in groups), "ranks_ended": ended}
