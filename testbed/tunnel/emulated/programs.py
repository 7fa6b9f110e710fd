"""Runs unmodified programs on the hosts at both ends of a trial, and reads their output."""

import base64
import hashlib
import json
import math
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.wiring import WiredHost
from testbed.tunnel.trial import (
    ENDS_S,
    EVERY_S,
    FRAMES_PER_S,
    KEY_FRAME_EVERY,
    UDP_PAYLOAD_BYTES,
    TrialPlan,
)
from topologies import Json, JsonObject

# The workload tcp with the congestion control BBR.
BBR = "tcp-bbr"
# The workload tcp as a file that is fetched from a web server.
FETCH = "tcp-wget"
# The program that each workload needs. Voice is sent by this package.
PROGRAMS = {
    "ping": "ping",
    "udp": "iperf3",
    "tcp": "iperf3",
    BBR: "iperf3",
    FETCH: "wget",
    "video": "ffmpeg",
}
# How many echo requests at the end are not counted, because they may be in transit when the run
# ends.
_UNCOUNTED_ECHOES = 50
_VIDEO_PORT = 5004
# How long a program may take to end after a signal.
_LINGER_S = 1.0
# How long a server may take to open its port.
_OPENS_WITHIN_S = 5.0
_POLL_S = 0.01
# Interval of the rates that iperf3 reports.
_RATE_EVERY_S = 0.1
# The rate of TCP in a failure includes this time after the repair.
_RECOVERY_S = 1.0
_HTTP_PORT = "8080"
# Rate of the fetched file as a share of the slowest link of the direct path. Failures leave more
# than this, and the file takes most of the run.
_FETCHED_SHARE = 0.2
_REPLY = re.compile(r"^.*icmp_seq=(\d+).* time=([\d.]+) ms", re.MULTILINE)
_SENT = re.compile(r"^(\d+) packets transmitted", re.MULTILINE)
# Writes every datagram that arrives to a file.
_DUMP = """
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
own.bind(("0.0.0.0", int(sys.argv[1])))
with open(sys.argv[2], "wb", buffering=0) as file:
    while True:
        file.write(own.recv(2048))
"""
# Serves a folder. ``python -m http.server`` would look up the name of the host first, and wait if
# no name server responds.
_SERVE = """
import functools, http.server, socketserver, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[2])
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("0.0.0.0", int(sys.argv[1])), handler).serve_forever()
"""


def missing_programs(workloads: Sequence[str]) -> dict[str, str]:
    """Return the programs that are not installed, by workload."""
    missing = {}
    for name in workloads:
        if name in PROGRAMS and shutil.which(PROGRAMS[name]) is None:
            missing[name] = PROGRAMS[name]
    return missing


@dataclass(frozen=True, kw_only=True)
class Place:
    """The hosts that programs run on.

    Attributes:
        net: The network.
        source: The host of the clients.
        sink: The host of the servers.
        address: The sink's address as the programs of the source reach it.
        folder: The folder of the files and outputs of the programs.
    """

    net: EmulatedNetwork
    source: WiredHost
    sink: WiredHost
    address: str
    folder: Path

    @contextmanager
    def program(
        self, host: WiredHost, argv: Sequence[str], name: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program on a host for the duration of the context.

        Args:
            host: The host.
            argv: The program and its arguments.
            name: The file in the folder that gets its output.
        """
        with (self.folder / name).open("wb") as out:
            program = self.net.run_in_host(
                host.name,
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            try:
                yield program
            finally:
                program.kill()
                program.wait()


def make_clip(folder: Path, duration_s: float) -> Path:
    """Generate a test video: an MPEG transport stream of H.264 with a key frame every second."""
    clip = folder / "sent.ts"
    picture = f"testsrc2=size=480x270:rate={FRAMES_PER_S}"
    argv = f"ffmpeg -v error -y -f lavfi -i {picture} -t {duration_s:g} -c:v libx264".split()
    argv += f"-preset veryfast -g {KEY_FRAME_EVERY} -bf 0 -b:v 800k -pix_fmt yuv420p".split()
    subprocess.run([*argv, str(clip)], check=True, stdin=subprocess.DEVNULL, timeout=300)
    return clip


def fetched_bytes_s(plan: TrialPlan) -> int:
    """Return the rate at which wget fetches the file, in bytes per second.

    >>> from testbed import tunnel_plan
    >>> fetched_bytes_s(tunnel_plan("ring:4", ("s0", "s2")))
    250000
    >>> fetched_bytes_s(tunnel_plan("ring:4,capacity_bps=2000000", ("s0", "s2")))
    50000
    """
    links = plan.network.links
    slowest_bps = min(links[i].capacity_bps for i in plan.direct.loaded)
    return int(_FETCHED_SHARE / 8 * slowest_bps)


def make_file(folder: Path, plan: TrialPlan) -> None:
    """Write the random file that the web server provides; fetching it takes 80 % of the run."""
    size_bytes = int(0.8 * plan.duration_s * fetched_bytes_s(plan))
    (folder / "file").write_bytes(random.Random(1).randbytes(size_bytes))


def listening(hosts: Place, workload: str) -> tuple[list[str], str] | None:
    """Return the server that the sink needs before the source begins.

    Returns:
        The program with its arguments, and the name of its output; None if no server is needed.
    """
    if PROGRAMS.get(workload) == "iperf3":
        return ["iperf3", "-s", "-1", "-p", _port(workload)], f"{workload}-server"
    if workload == FETCH:
        argv = [sys.executable, "-I", "-c", _SERVE, _HTTP_PORT, str(hosts.folder)]
        return argv, f"{workload}-server"
    if workload == "video":
        clip = hosts.folder / "came.ts"
        argv = [sys.executable, "-I", "-S", "-c", _DUMP, str(_VIDEO_PORT), str(clip)]
        return argv, "video-sink"
    return None


def wait_until_listening(hosts: Place, workload: str) -> None:
    """Wait until the sink's server has opened its port, for five seconds at most.

    If it never does, the outcome of the program shows it.
    """
    ports = {"video": str(_VIDEO_PORT), FETCH: _HTTP_PORT}
    port = int(ports.get(workload) or _port(workload))
    until_s = time.monotonic() + _OPENS_WITHIN_S
    while time.monotonic() < until_s:
        lines: list[str] = []
        with hosts.net.namespaces.inside(hosts.sink.name):
            for name in ("tcp", "tcp6", "udp"):
                lines += Path("/proc/thread-self/net", name).read_text().splitlines()
        # The second column is the local address and port, in hexadecimal.
        if any(line.split()[1].endswith(f":{port:04X}") for line in lines):
            return
        time.sleep(_POLL_S)


def sending(plan: TrialPlan, hosts: Place, workload: str) -> list[str]:
    """Return the program at the source, with its arguments."""
    address = hosts.address
    if workload == "ping":
        count = int(plan.duration_s / EVERY_S)
        return ["ping", "-n", "-i", f"{EVERY_S:g}", "-c", str(count), "-W", "1", address]
    if workload == "video":
        argv = ["ffmpeg", "-v", "error", "-re", "-i", str(hosts.folder / "sent.ts")]
        argv += "-c copy -copyts -mpegts_copyts 1 -f mpegts".split()
        return [*argv, f"udp://{address}:{_VIDEO_PORT}?pkt_size=1316"]
    if workload == FETCH:
        fetched = hosts.folder / "fetched"
        fetched.write_bytes(b"")
        argv = ["wget", "-q", "--no-proxy", f"--limit-rate={fetched_bytes_s(plan)}"]
        return [*argv, "-O", str(fetched), f"http://{address}:{_HTTP_PORT}/file"]
    argv = ["iperf3", "-c", address, "-p", _port(workload), "-J", "-t", f"{plan.duration_s:.0f}"]
    if workload == "udp":
        return [*argv, "-u", "-b", f"{plan.udp_rate_bps:.0f}", "-l", str(UDP_PAYLOAD_BYTES)]
    congestion_control = "cubic"
    if workload == BBR:
        congestion_control = "bbr"
    return [*argv, "-i", f"{_RATE_EVERY_S:g}", "-C", congestion_control]


def outcome(plan: TrialPlan, hosts: Place, workload: str) -> Json:
    """Return the figures of a program, read from its output."""
    text = (hosts.folder / workload).read_text(errors="replace")
    if workload == "ping":
        return _ping_figures(text)
    if workload == "video":
        frames = math.ceil((plan.duration_s - ENDS_S) * FRAMES_PER_S)
        middles = [(epoch.start_s + epoch.stop_s) / 2 for epoch in plan.epochs() if epoch.loss]
        return {**compared(hosts.folder, frames), **to_look_at(hosts.folder, middles)}
    if workload == FETCH:
        served = (hosts.folder / "file").read_bytes()
        fetched = (hosts.folder / "fetched").read_bytes()
        same = hashlib.sha256(served).digest() == hashlib.sha256(fetched).digest()
        return {"bytes": len(fetched), "of_bytes": len(served), "identical": same}
    return _iperf3_figures(plan, workload, text)


def _ping_figures(text: str) -> Json:
    summary = _SENT.search(text)
    sent = 0
    if summary is not None:
        sent = max(0, int(summary[1]) - _UNCOUNTED_ECHOES)
    replies_ms: dict[int, float] = {}
    for number, time_ms in _REPLY.findall(text):
        if int(number) <= sent:
            replies_ms[int(number)] = float(time_ms)
    mean_ms = None
    worst_ms = None
    if replies_ms:
        # Sorted, so that the sum does not depend on the order of the replies.
        times_ms = sorted(replies_ms.values())
        mean_ms = round(sum(times_ms) / len(times_ms), 2)
        worst_ms = times_ms[-1]
    return {
        "sent": sent,
        "lost": sent - len(replies_ms),
        "mean_ms": mean_ms,
        "worst_ms": worst_ms,
    }


def _iperf3_figures(plan: TrialPlan, workload: str, text: str) -> Json:
    """Return the figures of iperf3: packets for udp, rates for TCP."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return {"error": text.strip()[-200:] or "no output"}
    end = document.get("end", {})
    has_summary = "sum_received" in end or "sum" in end
    if "error" in document or not has_summary:
        return {"error": str(document.get("error", "it did not end"))}
    if workload == "udp":
        total = end["sum"]
        return {
            "sent": total["packets"],
            "lost": total["lost_packets"],
            "jitter_ms": round(total["jitter_ms"], 3),
        }
    rates: list[float] = [interval["sum"]["bits_per_second"] for interval in document["intervals"]]

    def mean_bps(start_s: float, stop_s: float) -> int:
        part = rates[round(start_s / _RATE_EVERY_S) : round(stop_s / _RATE_EVERY_S)]
        return round(sum(part) / max(1, len(part)))

    rate_by_second = [mean_bps(k, k + 1) for k in range(int(plan.duration_s))]
    failures = []
    for epoch in plan.epochs():
        if epoch.loss:
            failure = {
                "start_s": epoch.start_s,
                "lasts_s": round(epoch.lasts_s, 3),
                "bps": mean_bps(epoch.start_s, epoch.stop_s + _RECOVERY_S),
            }
            failures.append(failure)
    return {
        "goodput_bps": round(end["sum_received"]["bits_per_second"]),
        "retransmits": end["sum_sent"].get("retransmits"),
        "least_bps": min(rate_by_second, default=0),
        "bps": rate_by_second,
        "failures": failures,
    }


def lacking(workload: str) -> dict[str, str]:
    """Return why BBR or wget cannot be used, under the key ``error``.

    The result is empty if nothing is missing: the kernel has BBR, or wget is installed.
    """
    if workload == FETCH:
        if shutil.which("wget"):
            return {}
        return {"error": "wget is not installed: apt install wget"}
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if "bbr" in available:
        return {}
    return {"error": "this kernel has no bbr (modprobe tcp_bbr)"}


def compared(folder: Path, frames: int) -> JsonObject:
    """Compare the received video with the sent one by ffmpeg.

    Each sent frame is compared with the last frame that had arrived by its time.

    Args:
        folder: The folder of both videos.
        frames: Number of frames sent.

    Returns:
        PSNR of luma and chroma (100 dB: identical) and SSIM, and PSNR for each second.
    """
    graph = (
        "[0:v]split[a][b];[1:v]split[c][d];"
        "[a][c]psnr=stats_file=psnr[p];[b][d]ssim=stats_file=ssim[s]"
    )
    argv = "ffmpeg -v quiet -copyts -i sent.ts -copyts -i came.ts -lavfi".split()
    argv += [graph, *"-map [p] -f null - -map [s] -f null -".split()]
    for name in ("psnr", "ssim"):
        # ffmpeg writes no statistics if no video arrived.
        (folder / name).write_text("")
    subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, timeout=300, check=False)
    psnr_rows = re.findall(r"mse_avg:([\d.]+).* psnr_avg:(\S+)", (folder / "psnr").read_text())
    errors = [float(error) for error, _ in psnr_rows]
    identical = [psnr for _, psnr in psnr_rows if psnr == "inf"]
    ssims = [float(ssim) for ssim in re.findall(r"All:([\d.]+)", (folder / "ssim").read_text())]
    mean_ssim = None
    if ssims:
        mean_ssim = round(sum(ssims) / len(ssims), 5)
    over_time = []
    for first in range(0, len(errors), FRAMES_PER_S):
        second = first // FRAMES_PER_S
        over_time.append((second + 0.5, _psnr_db(errors[first : first + FRAMES_PER_S])))
    return {
        "frames": frames,
        "identical": len(identical),
        "psnr_db": _psnr_db(errors),
        "ssim": mean_ssim,
        "psnr_db_over_time": over_time,
    }


def to_look_at(folder: Path, moments_s: Sequence[float]) -> JsonObject:
    """Return the received video in a form that browsers play.

    Args:
        folder: The folder of the video.
        moments_s: Times of the still pictures.

    Returns:
        The video as a small WebM (``clip``), and stills at the given times (``moments``: time, JPEG
        in base64). They are empty if nothing arrived, or if ffmpeg cannot encode VP8.
    """
    clip = folder / "came.webm"
    still = folder / "still.jpg"
    clip.write_bytes(b"")
    ffmpeg = ["ffmpeg", "-v", "quiet", "-y"]
    codec = f"-r {FRAMES_PER_S} -c:v libvpx -b:v 300k -deadline realtime -cpu-used 8".split()
    _run([*ffmpeg, "-i", str(folder / "came.ts"), *codec, str(clip)])
    moments: list[tuple[float, str]] = []
    if clip.stat().st_size == 0:
        return {"clip": b"", "moments": moments}
    for at_s in moments_s:
        still.write_bytes(b"")
        position = ["-ss", f"{at_s:.3f}", "-i", str(clip)]
        _run([*ffmpeg, *position, "-frames:v", "1", "-vf", "scale=240:-2", str(still)])
        jpeg = still.read_bytes()
        if jpeg:
            moments.append((at_s, base64.b64encode(jpeg).decode()))
    return {"clip": clip.read_bytes(), "moments": moments}


def _run(argv: Sequence[str]) -> None:
    subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=300, check=False)


def _psnr_db(errors: Sequence[float]) -> float | None:
    """Return the PSNR of frames with these mean square errors; None without frames."""
    if not errors:
        return None
    mean = sum(errors) / len(errors)
    return round(min(100.0, 10 * math.log10(255**2 / max(mean, 1e-9))), 2)


def wait_for(programs: Sequence[subprocess.Popen[bytes]], until_s: float) -> None:
    """Wait until the programs have ended, and interrupt them at a time of the monotonic clock."""
    for program in programs:
        try:
            program.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            # ping and iperf3 print their results so far when they are interrupted.
            program.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                program.wait(_LINGER_S)


def ended(program: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program; terminate or kill it if it still runs."""
    if program.poll() is None:
        program.terminate()
        with suppress(subprocess.TimeoutExpired):
            program.wait(_LINGER_S)
        program.kill()
    return program.wait()


def _port(workload: str) -> str:
    """Return the port of iperf3, which differs because udp and tcp may have servers at once."""
    if workload == "udp":
        return "5201"
    return "5202"
