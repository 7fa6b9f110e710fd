"""Finds out what this machine can do for an emulated network.

Each capability is tried and never assumed. For each missing one there is a hint how to add it. The
trials that need a network of their own run in one temporary sandbox (``capability_trials``).
"""

import functools
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from testbed.emulation.machine.encryption import encryption_means
from testbed.emulation.machine.provenance import find_program, refusal, version_line
from testbed.emulation.network.open_vswitch.switches import tun_problem
from testbed.emulation.sandbox.sandbox import in_sandbox, probe_sandbox, sandbox_command
from testbed.emulation.sandbox.sandbox_entry import SOCKET_MEMORY_BYTES
from testbed.errors import CapabilityError
from testbed.extras import EXTRA_OF, pip_command, pip_install

_APT = "sudo apt-get install "

#: Programs of Open vSwitch that a network needs.
SWITCH_PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-ofctl", "ovs-dpctl")

#: Other programs: name of the capability, program, and Debian package.
PROGRAMS: tuple[tuple[str, str, str], ...] = (
    ("iproute2", "ip", "iproute2"),
    ("tc", "tc", "iproute2"),
    ("ethtool", "ethtool", "ethtool"),
    ("nftables", "nft", "nftables"),
    ("tcpdump", "tcpdump", "tcpdump"),
    ("iperf3", "iperf3", "iperf3"),
    ("ping", "ping", "iputils-ping"),
    ("mnexec", "mnexec", "mininet"),
    ("chromium", "chromium", "chromium"),
)

# Modules of optional dependencies (extras) whose package has another name.
_OTHER_MODULES = ("mpl_toolkits", "yaml")

#: Python packages.
PACKAGES = (
    "numpy",
    "networkx",
    "numba",
    "scipy",
    "reedsolo",
    "rich",
    "xxhash",
    *(name.replace("_", "-") for name in EXTRA_OF if name not in _OTHER_MODULES),
)

#: Programs that connect a sandbox to other machines without root.
UPLINKS = ("pasta",)

#: Capabilities without which there is no emulation.
NEEDED = ("namespaces", "openvswitch", "mnexec", "mininet", "datapath", "shaping", "packet_loss")

# Time limit for all trials together.
_TRIALS_LIMIT_S = 120.0

_MIN_CORES = 2
_MIN_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One capability of the machine.

    Attributes:
        available: Whether the machine has it.
        detail: What was found.
        mend: How to add it if it is missing; empty if nothing has to be done.
    """

    available: bool
    detail: str
    mend: str = ""


def _available(detail: str) -> Capability:
    return Capability(available=True, detail=detail)


def _missing(detail: str, mend: str) -> Capability:
    return Capability(available=False, detail=detail, mend=mend)


def _judged(problem: str | None, detail: str, mend: str = "") -> Capability:
    """Return a capability that may have a problem.

    Args:
        problem: The problem and, after a semicolon, how to fix it; None if there is none.
        detail: What was found if there is no problem.
        mend: How to fix the problem, if it does not say that.
    """
    if problem is None:
        return _available(detail)
    description, _, hint = problem.partition("; ")
    return _missing(description, hint or mend)


def emulation_problem() -> str | None:
    """Return why emulated networks cannot run here and how to fix it, or None if they can.

    The check takes about a tenth of a second. Inside a sandbox the result is always None.
    """
    if in_sandbox():
        return None
    for capability in (_open_vswitch(), _program("mnexec", "mininet"), _package("mininet")):
        if not capability.available:
            return f"{capability.detail}; {capability.mend}"
    refusal_of_sandbox = probe_sandbox()
    if refusal_of_sandbox is not None:
        return refusal_of_sandbox
    # With the kernel's datapath, switches need no tap interfaces.
    return None if Path("/sys/module/openvswitch").is_dir() else tun_problem()


def require_emulation() -> None:
    """Check that networks can be emulated here.

    Raises:
        CapabilityError: They cannot; the message says why.
    """
    obstacle = emulation_problem()
    if obstacle is not None:
        raise CapabilityError(f"emulation is not possible here: {obstacle}")


_NETEM = "tc qdisc add dev lo root netem delay 1ms"
_DETOUR = (
    "tc qdisc add dev lo clsact && tc filter add dev lo egress bpf bytecode '1,6 0 0 4294967295' "
    "action mirred egress redirect dev lo"
)

# Name of a capability -> shell commands that try it, what was found if they work, and how to add
# it.
_COMMANDS = {
    "htb": (
        "tc qdisc add dev lo root handle 1: htb && tc qdisc del dev lo root",
        "htb can be set",
        "sudo modprobe sch_htb (tbf is used; htb is for --queueing priority)",
    ),
    "vxlan": (
        "ip link add vx$$ type vxlan id 42 dstport 4789 remote 127.0.0.1 dev lo "
        "&& ip link del vx$$",
        "the kernel makes VXLAN cables between machines",
        "sudo modprobe vxlan (cables between machines need it)",
    ),
    "wireguard": (
        "ip link add wg$$ type wireguard && ip link del wg$$",
        "the kernel can encrypt traffic between machines",
        "sudo modprobe wireguard (needed only to encrypt traffic between machines)",
    ),
}

#: For shorter delays, the lateness of the relay is too large a part of the delay
#: (docs/reference/impairments.md, link delays).
SHORT_DELAY_S = 0.002


def link_delays(delays_s: Sequence[float]) -> tuple[str | None, str | None]:
    """Return why links cannot be delayed here, and a note for the user.

    The trial takes some hundredths of a second. Call it when ``emulation_problem`` is None. Inside
    a sandbox everything has been reported before.

    Args:
        delays_s: The delays of the links in seconds.

    Returns:
        Why neither the kernel nor the relay can delay packets, and what the user should know about
        the delays; each is None if there is nothing to say.
    """
    if not delays_s or in_sandbox() or _works(_NETEM):
        return None, None
    if not _works(_DETOUR):
        lack = "this kernel neither netem nor mirred to make them; sudo modprobe sch_netem"
        return f"the network has link delays, and {lack}", None
    short_delays = [delay_s for delay_s in delays_s if delay_s < SHORT_DELAY_S]
    warning = ""
    if short_delays:
        limit_ms = SHORT_DELAY_S * 1000
        warning = f"; that is much for the {len(short_delays)} of less than {limit_ms:g} ms"
    note = (
        "note: this kernel has no netem, so a process delays the packets of "
        f"{len(delays_s)} links, by 0.1 ms or more beyond what the network says{warning} "
        "(sudo modprobe sch_netem)"
    )
    return None, note


def _works(commands: str) -> bool:
    return refusal(commands) is None


def find_capabilities() -> dict[str, Capability]:
    """Return everything that ``testbed doctor`` reports, in its order.

    It takes one to two seconds, and raises nothing.
    """
    namespaces = _namespaces()
    open_vswitch = _open_vswitch()
    capabilities = {"namespaces": namespaces, "openvswitch": open_vswitch}
    for name, program, package in PROGRAMS:
        capabilities[name] = _program(program, package)
    capabilities["tun"] = _judged(tun_problem(), "/dev/net/tun opens for reading and writing")
    capabilities |= _trials(namespaces.available and open_vswitch.available)
    for name, (commands, detail, mend) in _COMMANDS.items():
        capabilities[name] = _judged(refusal(commands), detail, mend)
    capabilities |= several_machines()
    capabilities["socket_memory"] = _socket_memory()
    capabilities["isal"] = _isal()
    capabilities["compiled_code"] = _compiled_code()
    capabilities["packet_module"] = _packet_module()
    for name in PACKAGES:
        capabilities[name] = _package(name)
    capabilities |= _machine()
    return capabilities


def several_machines() -> dict[str, Capability]:
    """Return what ``--machines`` needs in addition.

    These are a connection of the sandbox to other machines without root, WireGuard for
    ``--encrypt``, and separate clocks to try several machines on one.
    """
    paths = [find_program(name) for name in UPLINKS]
    uplinks = ", ".join(path for path in paths if path is not None)
    if uplinks:
        uplink = _available(uplinks)
    else:
        uplink = _missing(
            f"none of {', '.join(UPLINKS)} is installed",
            _APT + "passt; or run the worker in a network namespace that has an interface",
        )
    means, lack = encryption_means()
    means_text = "in the kernel" if means == "kernel" else f"in user space, {means}"
    encryption_problem = None if lack is None else f"{lack} (needed only for --encrypt)"
    clock_refusal = probe_sandbox(clock_offset_s=1)
    if clock_refusal:
        time_namespaces = _missing(
            clock_refusal, "a kernel with CONFIG_TIME_NS (5.6 or newer); real machines need none"
        )
    else:
        time_namespaces = _available("a process can have a monotonic clock of its own")
    return {
        "uplink": uplink,
        "encryption": _judged(encryption_problem, f"WireGuard {means_text}"),
        "time_namespaces": time_namespaces,
    }


def _namespaces() -> Capability:
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    capability = _judged(
        probe_sandbox(),
        "user, network, mount and process namespaces, veth made inside",
        "run the command with sudo",
    )
    return replace(capability, detail=f"as {user}: {capability.detail}")


def _open_vswitch() -> Capability:
    missing = [name for name in SWITCH_PROGRAMS if find_program(name) is None]
    if missing:
        detail = f"Open vSwitch is not installed ({', '.join(missing)} missing)"
        return _missing(detail, _APT + "openvswitch-switch")
    return _available(version_line("ovs-vswitchd") or "does not answer")


def _program(name: str, package: str) -> Capability:
    path = find_program(name)
    if path is None:
        return _missing(f"{name} is not installed", _APT + package)
    return _available(path)


def _package(name: str) -> Capability:
    try:
        return _available(f"version {version(name)}")
    except PackageNotFoundError:
        if importlib.util.find_spec(name.replace("-", "_")) is not None:
            return _available("version unknown")
        extra = EXTRA_OF.get(name.replace("-", "_"))
        hint = pip_install(name) if extra is None else pip_command(extra)
        return _missing(f"the Python package {name} is not installed", hint)


@functools.cache
def _trials(possible: bool) -> dict[str, Capability]:
    """Return the capabilities that only a trial in a sandbox can show.

    The trials run once per process.

    Args:
        possible: The machine has namespaces and Open vSwitch, without which no trial can run and
            all these capabilities count as missing.
    """
    from testbed.emulation.machine.capability_trials import TRIALS

    results: dict[str, dict[str, str]] = {}
    reason = "cannot be tried without namespaces and Open vSwitch"
    if possible:
        command = [sys.executable, "-P", "-m", "testbed.emulation.machine.capability_trials"]
        results, reason = tried(sandbox_command(command, die_with_parent=True), _TRIALS_LIMIT_S)
    capabilities = {}
    for name in TRIALS:
        result = results.get(name)
        if result is None:
            capabilities[name] = _missing(reason, "see namespaces and openvswitch")
        else:
            lack = result["lack"]
            capabilities[name] = Capability(
                available=not lack, detail=lack or result["detail"], mend=result["mend"]
            )
    return capabilities


def tried(command: list[str], limit_s: float) -> tuple[dict[str, dict[str, str]], str]:
    """Run the trials.

    Args:
        command: The command line that runs them.
        limit_s: Time limit for all trials together in seconds.

    Returns:
        The result of each trial that ended, by name, and the reason why others did not.
    """
    try:
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
        output = finished.stdout
        errors = finished.stderr.decode(errors="replace").strip().splitlines()
        last_line = errors[-1] if errors else "no reason given"
        reason = f"the trials failed: {last_line}"
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""
        reason = f"the trials came no further within {limit_s:g} s"
    results = {}
    for line in output.decode().splitlines(keepends=True):
        # A last line without an end is incomplete.
        if line.endswith("\n"):
            name, result = json.loads(line)
            results[name] = result
    return results, reason


def _socket_memory(folder: Path = Path("/proc/sys/net/core")) -> Capability:
    """Return whether sockets have enough memory with the kernel's present settings.

    A run as root raises the settings by itself before it starts.

    Args:
        folder: The folder of the settings.
    """
    values = {}
    for name in SOCKET_MEMORY_BYTES:
        path = folder / name
        if path.exists():
            values[name] = int(path.read_text())
    if len(values) < len(SOCKET_MEMORY_BYTES):
        # Some kernels show them only in the machine's own network namespace.
        return _available("not shown inside a sandbox by this kernel; ask testbed doctor")
    detail = ", ".join(f"{name} {value}" for name, value in values.items())
    settings = []
    for name, required in SOCKET_MEMORY_BYTES.items():
        if values[name] < required:
            settings.append(f"net.core.{name}={required}")
    if not settings:
        return _available(detail)
    is_root = os.geteuid() == 0
    effect = "a run as root raises them" if is_root else "many shaped ports may drop packets"
    return Capability(
        available=is_root,
        detail=f"{detail} ({effect})",
        mend="sudo sysctl -w " + " ".join(settings),
    )


def _isal() -> Capability:
    from fec.adapters.isal import build_engine
    from fec.errors import EngineUnavailable

    try:
        build_engine()
    except EngineUnavailable:
        return _missing("no ISA-L shared library; another coding engine is used", _APT + "libisal2")
    return _available("libisal.so.2")


def _compiled_code() -> Capability:
    """Return whether the routines that were compiled with the package can be used here."""
    from fec.jit import KERNELS, KERNELS_DIGEST, kernels, kernels_are_intact

    if kernels() is not None:
        return _available(KERNELS.name)
    if importlib.util.find_spec("numba") is None:
        return _missing("numba is not installed: algorithms run in Python", "pip install numba")
    if not KERNELS.exists() or not KERNELS_DIGEST.exists():
        return _missing(
            f"no {KERNELS.name}: code is compiled at its first use",
            "make kernels, or testbed doctor --compile",
        )
    try:
        intact = kernels_are_intact()
    except OSError as error:
        return _missing(f"{error.filename}: {error.strerror}", "install the package again")
    if not intact:
        return _missing(f"{KERNELS} is damaged", "make kernels, or install the package again")
    return _missing("nothing is compiled ahead for this processor", "testbed doctor --compile")


def _packet_module() -> Capability:
    """Return whether a C compiler made the module that handles the packets of streams."""
    from fec.protocol.row_seals import SLOWER, c_module

    compiled = c_module()
    if compiled is None:
        return _missing(SLOWER, _APT + "gcc libc6-dev python3-dev, then install this package again")
    return _available(Path(compiled.__file__ or "").name)


def _machine() -> dict[str, Capability]:
    """Return cores, memory, kernel and Python of this machine."""
    core_count = len(os.sched_getaffinity(0))
    cores = _available(str(core_count))
    if core_count < _MIN_CORES:
        hint = "with one core, streams must be slow; give the machine two"
        cores = _missing(str(core_count), hint)
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = f"{memory_bytes / 2**30:.1f} GiB"
    memory = _available(size)
    if memory_bytes < _MIN_MEMORY_BYTES:
        memory = _missing(size, "give the machine 1 GiB or more")
    return {
        "cores": cores,
        "memory": memory,
        "kernel": _available(f"{platform.system()} {platform.release()} {platform.machine()}"),
        "python": _available(platform.python_version()),
    }


def as_document(capabilities: dict[str, Capability]) -> dict[str, dict[str, object]]:
    """Return name -> ``available``, ``detail`` and ``mend``, as values for JSON."""
    return {name: asdict(capability) for name, capability in capabilities.items()}
