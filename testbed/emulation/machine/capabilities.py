"""What this machine can do for an emulated network: each ability tried out, never assumed, each lack with its remedy.

The trials that need a network of their own run in one throw-away sandbox (``capability_trials``).
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
SWITCH_PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-ofctl", "ovs-dpctl")
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
PACKAGES = (
    *("numpy", "networkx", "numba", "scipy", "reedsolo", "rich", "xxhash"),
    *(name.replace("_", "-") for name in EXTRA_OF if name not in ("mpl_toolkits", "yaml")),
)
UPLINKS = ("pasta",)
"""Programs that give a sandbox a way to other machines without root."""
NEEDED = ("namespaces", "openvswitch", "mnexec", "mininet", "datapath", "shaping", "packet_loss")
"""Without one of these there is no emulation here."""
_TRIALS_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One ability: whether it is there, what was found, and what to do where it is not ("" where nothing is needed)."""

    available: bool
    detail: str
    mend: str = ""


def _there(detail: str) -> Capability:
    return Capability(available=True, detail=detail)


def _missing(detail: str, mend: str) -> Capability:
    return Capability(available=False, detail=detail, mend=mend)


def _judged(problem: str | None, detail: str, mend: str = "") -> Capability:
    """``problem``: what is wrong and, after a semicolon, how to fix it (else ``mend`` says how); None where nothing
    is."""
    if problem is None:
        return _there(detail)
    words, _, hint = problem.partition("; ")
    return _missing(words, hint or mend)


def emulation_problem() -> str | None:
    """None where emulated networks can be run here, else what is missing and how to fix it, in one line.

    Takes about a tenth of a second; inside a sandbox it is always None.
    """
    if in_sandbox():
        return None
    for found in (_open_vswitch(), _program("mnexec", "mininet"), _package("mininet")):
        if not found.available:
            return f"{found.detail}; {found.mend}"
    refused = probe_sandbox()
    if refused is not None:
        return refused
    return None if Path("/sys/module/openvswitch").is_dir() else tun_problem()


def require_emulation() -> None:
    """CapabilityError, with the reason, where no network can be emulated here."""
    if (obstacle := emulation_problem()) is not None:
        raise CapabilityError(f"emulation is not possible here: {obstacle}")


_NETEM = "tc qdisc add dev lo root netem delay 1ms"
_DETOUR = (
    "tc qdisc add dev lo clsact && tc filter add dev lo egress bpf bytecode '1,6 0 0 4294967295' "
    "action mirred egress redirect dev lo"
)
_COMMANDS = {
    "htb": (
        "tc qdisc add dev lo root handle 1: htb && tc qdisc del dev lo root",
        "htb can be set",
        "sudo modprobe sch_htb (tbf is used; htb is for --queueing priority)",
    ),
    "vxlan": (
        "ip link add vx$$ type vxlan id 42 dstport 4789 remote 127.0.0.1 dev lo && ip link del vx$$",
        "the kernel makes VXLAN cables between machines",
        "sudo modprobe vxlan (cables between machines need it)",
    ),
    "wireguard": (
        "ip link add wg$$ type wireguard && ip link del wg$$",
        "the kernel can encrypt what goes between machines",
        "sudo modprobe wireguard (needed only to encrypt what goes between machines)",
    ),
}
"""What the machine's own programs say of the kernel: name -> (commands, what was found where they work, remedy)."""
SHORT_DELAY_S = 0.002
"""Of less what the relay is late by is too large a part (docs/reference/impairments.md, link delays)."""


def link_delays(delays_s: Sequence[float]) -> tuple[str | None, str | None]:
    """Why links cannot be given these delays, by the kernel or by the relay, and what a user should know of them, each
    None where there is nothing to say; a trial of some hundredths of a second.

    Once ``emulation_problem`` is None; inside a sandbox all has been said already.
    """
    if not delays_s or in_sandbox() or _works(_NETEM):
        return None, None
    if not _works(_DETOUR):
        lack = "this kernel neither netem nor mirred to make them; sudo modprobe sch_netem"
        return f"the network has link delays, and {lack}", None
    short = sum(delay_s < SHORT_DELAY_S for delay_s in delays_s)
    much = (
        f"; that is much for the {short} of less than {SHORT_DELAY_S * 1000:g} ms" if short else ""
    )
    return None, (
        f"note: this kernel has no netem, so a process delays the packets of {len(delays_s)} links, by 0.1 ms or more "
        f"beyond what the network says{much} (sudo modprobe sch_netem)"
    )


def _works(commands: str) -> bool:
    return refusal(commands) is None


def find_capabilities() -> dict[str, Capability]:
    """Everything that ``testbed doctor`` reports, in its order. Takes one to two seconds; raises nothing."""
    found = {"namespaces": _namespaces(), "openvswitch": _open_vswitch()}
    found |= {name: _program(program, package) for name, program, package in PROGRAMS}
    found["tun"] = _judged(tun_problem(), "/dev/net/tun opens for reading and writing")
    found |= _trials(found["namespaces"].available and found["openvswitch"].available)
    found |= {
        name: _judged(refusal(commands), what, mend)
        for name, (commands, what, mend) in _COMMANDS.items()
    }
    found |= several_machines()
    found["socket_memory"] = _socket_memory()
    found["isal"] = _isal()
    found["compiled_code"] = _compiled_code()
    found["packet_module"] = _packet_module()
    found |= {name: _package(name) for name in PACKAGES}
    found |= _machine()
    return found


def several_machines() -> dict[str, Capability]:
    """What ``--machines`` asks for besides: a way out of the sandbox without root, WireGuard for ``--encrypt``, and
    clocks of their own to try it with on one machine."""
    paths = ", ".join(path for name in UPLINKS if (path := find_program(name)) is not None)
    absent = f"none of {', '.join(UPLINKS)} is installed"
    install = _APT + "passt; or run the worker in a network namespace that has an interface"
    means, lack = encryption_means()
    spoken = "in the kernel" if means == "kernel" else f"in user space, {means}"
    encryption_problem = None if lack is None else f"{lack} (needed only for --encrypt)"
    refused, newer = (
        probe_sandbox(clock_offset_s=1),
        "a kernel with CONFIG_TIME_NS (5.6 or newer); real machines need none",
    )
    return {
        "uplink": _there(paths) if paths else _missing(absent, install),
        "encryption": _judged(encryption_problem, f"WireGuard {spoken}"),
        "time_namespaces": _missing(refused, newer)
        if refused
        else _there("a process can have a monotonic clock of its own"),
    }


def _namespaces() -> Capability:
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    found = _judged(
        probe_sandbox(),
        "user, network, mount and process namespaces, veth made inside",
        "run the command with sudo",
    )
    return replace(found, detail=f"as {who}: {found.detail}")


def _open_vswitch() -> Capability:
    missing = [name for name in SWITCH_PROGRAMS if find_program(name) is None]
    if missing:
        detail = f"Open vSwitch is not installed ({', '.join(missing)} missing)"
        return _missing(detail, _APT + "openvswitch-switch")
    return _there(version_line("ovs-vswitchd") or "does not answer")


def _program(name: str, package: str) -> Capability:
    path = find_program(name)
    return _missing(f"{name} is not installed", _APT + package) if path is None else _there(path)


def _package(name: str) -> Capability:
    try:
        return _there(f"version {version(name)}")
    except PackageNotFoundError:
        if importlib.util.find_spec(name.replace("-", "_")) is not None:
            return _there("version unknown")
        extra = EXTRA_OF.get(name.replace("-", "_"))
        hint = pip_install(name) if extra is None else pip_command(extra)
        return _missing(f"the Python package {name} is not installed", hint)


@functools.cache
def _trials(possible: bool) -> dict[str, Capability]:
    """What only a trial in a sandbox can show, tried once a process; all absent, with the reason, where there is
    none."""
    from testbed.emulation.machine.capability_trials import TRIALS

    results, why = (
        dict[str, dict[str, str]](),
        "cannot be tried without namespaces and Open vSwitch",
    )
    if possible:
        words = [sys.executable, "-P", "-m", "testbed.emulation.machine.capability_trials"]
        results, why = tried(sandbox_command(words, die_with_parent=True), _TRIALS_LIMIT_S)
    found = {
        name: Capability(available=not t["lack"], detail=t["lack"] or t["detail"], mend=t["mend"])
        for name, t in results.items()
    }
    unknown = _missing(why, "see namespaces and openvswitch")
    return {name: found.get(name, unknown) for name in TRIALS}


def tried(words: list[str], limit_s: float) -> tuple[dict[str, dict[str, str]], str]:
    """Trial -> what it found, of those that ended; why the others did not. ``limit_s``: for all together."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
        text, said = done.stdout, done.stderr.decode(errors="replace").strip().splitlines()
        why = f"the trials failed: {(said or ['no reason given'])[-1]}"
    except subprocess.TimeoutExpired as late:
        text, why = late.stdout or b"", f"the trials came no further within {limit_s:g} s"
    return dict(
        json.loads(line) for line in text.decode().splitlines(keepends=True) if line.endswith("\n")
    ), why


def _socket_memory(folder: Path = Path("/proc/sys/net/core")) -> Capability:
    """Limits of the kernel as they are now; a run as root raises them by itself before it starts."""
    limits = {name: folder / name for name in SOCKET_MEMORY_BYTES}
    have = {name: int(path.read_text()) for name, path in limits.items() if path.exists()}
    if len(have) < len(
        limits
    ):  # some kernels show them in the machine's own network namespace only
        return _there("not shown inside a sandbox by this kernel; ask testbed doctor")
    detail = ", ".join(f"{name} {value}" for name, value in have.items())
    low = {
        name: required for name, required in SOCKET_MEMORY_BYTES.items() if have[name] < required
    }
    if not low:
        return _there(detail)
    hint = "sudo sysctl -w " + " ".join(
        f"net.core.{name}={required}" for name, required in low.items()
    )
    effect = (
        "a run as root raises them" if os.geteuid() == 0 else "many shaped ports may drop packets"
    )
    return Capability(available=os.geteuid() == 0, detail=f"{detail} ({effect})", mend=hint)


def _isal() -> Capability:
    from fec.adapters.isal import build_engine
    from fec.errors import EngineUnavailable

    try:
        build_engine()
    except EngineUnavailable:
        return _missing("no ISA-L shared library; another coding engine is used", _APT + "libisal2")
    return _there("libisal.so.2")


def _compiled_code() -> Capability:
    """Return whether the routines that were compiled with the package can be used here."""
    from fec.jit import KERNELS, KERNELS_DIGEST, kernels, kernels_are_intact

    if kernels() is not None:
        return _there(KERNELS.name)
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
    return _there(Path(compiled.__file__ or "").name)


def _machine() -> dict[str, Capability]:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = f"{memory / 2**30:.1f} GiB"
    few, little = (
        "with one core, streams must be slow; give the machine two",
        "give the machine 1 GiB or more",
    )
    return {
        "cores": _there(str(cores)) if cores >= 2 else _missing(str(cores), few),
        "memory": _there(size) if memory >= 1 << 30 else _missing(size, little),
        "kernel": _there(f"{platform.system()} {platform.release()} {platform.machine()}"),
        "python": _there(platform.python_version()),
    }


def as_document(found: dict[str, Capability]) -> dict[str, dict[str, object]]:
    """Name -> {available, detail, mend}, for JSON."""
    return {name: asdict(capability) for name, capability in found.items()}
