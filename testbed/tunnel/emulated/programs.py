"""Programs that nobody here wrote, in the hosts at both ends of a run: started together, read when they have ended."""

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

BBR = "tcp-bbr"
"""The workload tcp once more, under another congestion control."""
FETCH = "tcp-wget"
"""And once more, as a file that is fetched from a web server."""
PROGRAMS = {
    "ping": "ping",
    "udp": "iperf3",
    "tcp": "iperf3",
    BBR: "iperf3",
    FETCH: "wget",
    "video": "ffmpeg",
}
"""Workload -> the program that it needs; voice is a source of our own."""
_UNDER_WAY = 50
"""The last echoes, which may be under way when the run ends, are not counted."""
_VIDEO_PORT = 5004
_LINGER_S, _OPENS_WITHIN_S = 1.0, 5.0
_RATE_EVERY_S, _RECOVERY_S = 0.1, 1.0
"""TCP is told of so often; its rate in a failure is that until so long after the repair."""
_HTTP_PORT, _FETCHED_SHARE = "8080", 0.2
"""Of a link of the direct path: a rate at which a file takes most of a run, and that failures leave to spare."""
_REPLY = re.compile(r"^.*icmp_seq=(\d+).* time=([\d.]+) ms", re.MULTILINE)
_SENT = re.compile(r"^(\d+) packets transmitted", re.MULTILINE)
_DUMP = """
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
own.bind(("0.0.0.0", int(sys.argv[1])))
with open(sys.argv[2], "wb", buffering=0) as file:
    while True:
        file.write(own.recv(2048))
"""
_SERVE = """
import functools, http.server, socketserver, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[2])
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("0.0.0.0", int(sys.argv[1])), handler).serve_forever()
"""
"""As ``http.server``, which asks for its own name first and waits where no name server responds."""


def missing_programs(workloads: Sequence[str]) -> dict[str, str]:
    """Workload -> its program, of those that this machine does not have."""
    return {
        name: PROGRAMS[name]
        for name in workloads
        if name in PROGRAMS and shutil.which(PROGRAMS[name]) is None
    }


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where programs run: a host at each end, and the sink's address as the source's programs reach it."""

    net: EmulatedNetwork
    source: WiredHost
    sink: WiredHost
    address: str
    folder: Path

    @contextmanager
    def program(
        self, host: WiredHost, words: Sequence[str], name: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Meanwhile the program runs there; its output goes into the folder."""
        with (self.folder / name).open("wb") as out:
            program = self.net.run_in_host(
                host.name,
                list(words),
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
    """A generated moving picture as an MPEG transport stream of H.264, its key frames a second apart."""
    clip = folder / "sent.ts"
    picture = f"testsrc2=size=480x270:rate={FRAMES_PER_S}"
    words = [
        "ffmpeg",
        "-v",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        picture,
        "-t",
        f"{duration_s:g}",
        "-c:v",
        "libx264",
    ]
    words += f"-preset veryfast -g {KEY_FRAME_EVERY} -bf 0 -b:v 800k -pix_fmt yuv420p".split()
    subprocess.run([*words, str(clip)], check=True, stdin=subprocess.DEVNULL, timeout=300)
    return clip


def fetched_bytes_s(plan: TrialPlan) -> int:
    """At which wget fetches the file.

    >>> from testbed import tunnel_plan
    >>> [fetched_bytes_s(tunnel_plan(f"ring:4{rate}", ("s0", "s2"))) for rate in ("", ",capacity_bps=2000000")]
    [250000, 50000]
    """
    links = plan.network.links
    return int(_FETCHED_SHARE / 8 * min(links[i].capacity_bps for i in plan.direct.loaded))


def make_file(folder: Path, plan: TrialPlan) -> None:
    """What a web server is asked for: any bytes, so many that fetching them meets the failures of a run."""
    (folder / "file").write_bytes(
        random.Random(1).randbytes(int(0.8 * plan.duration_s * fetched_bytes_s(plan)))
    )


def listening(place: Place, workload: str) -> tuple[list[str], str] | None:
    """The words of the program that the sink needs before the source begins."""
    if PROGRAMS.get(workload) == "iperf3":
        return ["iperf3", "-s", "-1", "-p", _port(workload)], f"{workload}-server"
    if workload == FETCH:
        return [
            sys.executable,
            "-I",
            "-c",
            _SERVE,
            _HTTP_PORT,
            str(place.folder),
        ], f"{workload}-server"
    if workload == "video":
        return [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _DUMP,
            str(_VIDEO_PORT),
            str(place.folder / "came.ts"),
        ], "video-sink"
    return None


def wait_until_listening(place: Place, workload: str) -> None:
    """Until the sink's program has opened its port, some seconds at most: the outcome tells where it never does."""
    ports = {"video": str(_VIDEO_PORT), FETCH: _HTTP_PORT}
    own, until_s = (
        f":{int(ports.get(workload) or _port(workload)):04X}",
        time.monotonic() + _OPENS_WITHIN_S,
    )
    while time.monotonic() < until_s:
        with place.net.namespaces.inside(place.sink.name):
            tables = [
                Path("/proc/thread-self/net", name).read_text() for name in ("tcp", "tcp6", "udp")
            ]
        if any(line.split()[1].endswith(own) for table in tables for line in table.splitlines()):
            return
        time.sleep(_RATE_EVERY_S / 10)


def sending(plan: TrialPlan, place: Place, workload: str) -> list[str]:
    """The words of the program at the source."""
    seconds, address = plan.duration_s, place.address
    if workload == "ping":
        every = ["-i", f"{EVERY_S:g}", "-c", str(int(seconds / EVERY_S))]
        return ["ping", "-n", *every, "-W", "1", address]
    if workload == "video":
        source = [
            "ffmpeg",
            "-v",
            "error",
            "-re",
            "-i",
            str(place.folder / "sent.ts"),
            "-c",
            "copy",
            "-copyts",
        ]
        return [
            *source,
            "-mpegts_copyts",
            "1",
            "-f",
            "mpegts",
            f"udp://{address}:{_VIDEO_PORT}?pkt_size=1316",
        ]
    if workload == FETCH:
        (place.folder / "fetched").write_bytes(b"")
        options = [
            "-q",
            "--no-proxy",
            f"--limit-rate={fetched_bytes_s(plan)}",
            "-O",
            str(place.folder / "fetched"),
        ]
        return ["wget", *options, f"http://{address}:{_HTTP_PORT}/file"]
    words = ["iperf3", "-c", address, "-p", _port(workload), "-J", "-t", f"{seconds:.0f}"]
    if workload == "udp":
        return [*words, "-u", "-b", f"{plan.udp_rate_bps:.0f}", "-l", str(UDP_PAYLOAD_BYTES)]
    return [*words, "-i", f"{_RATE_EVERY_S:g}", "-C", "bbr" if workload == BBR else "cubic"]


def outcome(plan: TrialPlan, place: Place, workload: str) -> Json:
    """What a program measured, from its output."""
    text = (place.folder / workload).read_text(errors="replace")
    if workload == "ping":
        summary = _SENT.search(text)
        sent = max(0, int(summary[1]) - _UNDER_WAY) if summary is not None else 0
        answers = ((int(number), float(ms)) for number, ms in _REPLY.findall(text))
        replies = {number: ms for number, ms in answers if number <= sent}
        times = sorted(replies.values())
        return {
            "sent": sent,
            "lost": sent - len(replies),
            "mean_ms": round(sum(times) / len(times), 2) if times else None,
            "worst_ms": times[-1] if times else None,
        }
    if workload == "video":
        frames = math.ceil((plan.duration_s - ENDS_S) * FRAMES_PER_S)
        middles = [(epoch.start_s + epoch.stop_s) / 2 for epoch in plan.epochs() if epoch.loss]
        return {**compared(place.folder, frames), **to_look_at(place.folder, middles)}
    if workload == FETCH:
        asked, fetched = ((place.folder / name).read_bytes() for name in ("file", "fetched"))
        same = hashlib.sha256(asked).digest() == hashlib.sha256(fetched).digest()
        return {"bytes": len(fetched), "of_bytes": len(asked), "identical": same}
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return {"error": text.strip()[-200:] or "no output"}
    if "error" in document or (
        "sum_received" not in document.get("end", {}) and "sum" not in document.get("end", {})
    ):
        return {"error": str(document.get("error", "it did not end"))}
    end = document["end"]
    if workload == "udp":
        total = end["sum"]
        return {
            "sent": total["packets"],
            "lost": total["lost_packets"],
            "jitter_ms": round(total["jitter_ms"], 3),
        }
    rates: list[float] = [one["sum"]["bits_per_second"] for one in document["intervals"]]

    def mean_bps(start_s: float, stop_s: float) -> int:
        part = rates[round(start_s / _RATE_EVERY_S) : round(stop_s / _RATE_EVERY_S)]
        return round(sum(part) / max(1, len(part)))

    seconds = [mean_bps(k, k + 1) for k in range(int(plan.duration_s))]
    broken = [epoch for epoch in plan.epochs() if epoch.loss]
    return {
        "goodput_bps": round(end["sum_received"]["bits_per_second"]),
        "retransmits": end["sum_sent"].get("retransmits"),
        "least_bps": min(seconds, default=0),
        "bps": seconds,
        "failures": [
            {
                "start_s": epoch.start_s,
                "lasts_s": round(epoch.lasts_s, 3),
                "bps": mean_bps(epoch.start_s, epoch.stop_s + _RECOVERY_S),
            }
            for epoch in broken
        ],
    }


def lacking(workload: str) -> dict[str, str]:
    """What is told where the kernel has no BBR, or the machine no wget."""
    if workload == FETCH:
        return {} if shutil.which("wget") else {"error": "wget is not installed: apt install wget"}
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return {} if "bbr" in known else {"error": "this kernel has no bbr (modprobe tcp_bbr)"}


def compared(folder: Path, frames: int) -> JsonObject:
    """The picture that came beside the one that was sent, by ffmpeg: each of so many frames against the last one that
    had come by its time. PSNR of luma and chroma (100 dB: identical) and SSIM, ``psnr_db_over_time`` second by
    second."""
    graph = "[0:v]split[a][b];[1:v]split[c][d];[a][c]psnr=stats_file=psnr[p];[b][d]ssim=stats_file=ssim[s]"
    words = [
        "ffmpeg",
        "-v",
        "quiet",
        "-copyts",
        "-i",
        "sent.ts",
        "-copyts",
        "-i",
        "came.ts",
        "-lavfi",
        graph,
    ]
    for name in ("psnr", "ssim"):
        (folder / name).write_text("")
    outputs = [word for label in "ps" for word in ("-map", f"[{label}]", "-f", "null", "-")]
    subprocess.run(
        [*words, *outputs], cwd=folder, stdin=subprocess.DEVNULL, timeout=300, check=False
    )
    differing = re.findall(r"mse_avg:([\d.]+).* psnr_avg:(\S+)", (folder / "psnr").read_text())
    likeness = [float(one) for one in re.findall(r"All:([\d.]+)", (folder / "ssim").read_text())]
    errors = [float(error) for error, _ in differing]
    parts = [errors[k : k + FRAMES_PER_S] for k in range(0, len(errors), FRAMES_PER_S)]
    return {
        "frames": frames,
        "identical": sum(psnr == "inf" for _, psnr in differing),
        "psnr_db": _psnr_db(errors),
        "ssim": round(sum(likeness) / len(likeness), 5) if likeness else None,
        "psnr_db_over_time": [(k + 0.5, _psnr_db(part)) for k, part in enumerate(parts)],
    }


def to_look_at(folder: Path, moments_s: Sequence[float]) -> JsonObject:
    """The picture that came as a small WebM (``clip``), and as it was seen at each of the ``moments`` (time, JPEG in
    base64); nothing of what did not come, or of a ffmpeg without VP8."""
    clip, still = folder / "came.webm", folder / "still.jpg"
    clip.write_bytes(b"")
    ffmpeg = ["ffmpeg", "-v", "quiet", "-y"]
    coded = [
        "-r",
        str(FRAMES_PER_S),
        "-c:v",
        "libvpx",
        "-b:v",
        "300k",
        "-deadline",
        "realtime",
        "-cpu-used",
        "8",
    ]
    _run([*ffmpeg, "-i", str(folder / "came.ts"), *coded, str(clip)])
    moments = []
    for at_s in moments_s if clip.stat().st_size else ():
        still.write_bytes(b"")
        _run(
            [
                *ffmpeg,
                "-ss",
                f"{at_s:.3f}",
                "-i",
                str(clip),
                "-frames:v",
                "1",
                "-vf",
                "scale=240:-2",
                str(still),
            ]
        )
        moments += (
            [(at_s, base64.b64encode(found).decode())] if (found := still.read_bytes()) else []
        )
    return {"clip": clip.read_bytes(), "moments": moments}


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, stdin=subprocess.DEVNULL, timeout=300, check=False)


def _psnr_db(errors: Sequence[float]) -> float | None:
    """Of mean square errors, frame by frame."""
    mean = sum(errors) / len(errors) if errors else None
    return mean if mean is None else round(min(100.0, 10 * math.log10(255**2 / max(mean, 1e-9))), 2)


def wait_for(programs: Sequence[subprocess.Popen[bytes]], until_s: float) -> None:
    """Until they have ended, or that moment of the monotonic clock."""
    for program in programs:
        try:
            program.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGINT)  # ping and iperf3 say what they have
            with suppress(subprocess.TimeoutExpired):
                program.wait(_LINGER_S)


def ended(program: subprocess.Popen[bytes]) -> int:
    """Its exit code; one that is still there is asked to end, and killed where it does not."""
    if program.poll() is None:
        program.terminate()
        with suppress(subprocess.TimeoutExpired):
            program.wait(_LINGER_S)
        program.kill()
    return program.wait()


def _port(workload: str) -> str:
    return "5201" if workload == "udp" else "5202"
