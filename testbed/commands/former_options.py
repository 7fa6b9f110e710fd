"""Options under the spellings that they had in 0.2: taken until 0.4, each with one line on stderr that says the present
one."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence

from testbed.errors import InputError
from testbed.report.streams import complain

Present = str | Mapping[str, str]
"""What is written now: an option, one with its values in place of ``{}``, or by the value what stands for both."""
_CODE = {
    "--tolerance": "--static-tolerance",
    "--labels": "--label-order",
}  # --m and --der stay, as short forms
_MACHINES = {"--place": "--machine-placement"}
_STREAM = {
    **_CODE,
    **_MACHINES,
    "--method": "--routing",
    "--rate-pps": "--packet-rate",
    "--symbol-bytes": "--symbol-size",
    "--playback": "--playback-buffer",
    "--hold": "--hold-time",
    "--most-overhead": "--max-overhead",
    "--repeats": "--retries",
}
_FT_DRB = {"--paths": "--max-paths", "--first-paths": "--initial-paths", "--link-up": "--repair-detection"}
_SEARCH = {"--method": "--scheduling", "--time-limit": "--solver-time-limit"}
_STUDIES = {"--hours": "--max-hours", "--scheduler": "--dask"}
FORMER: Mapping[str, Mapping[str, Present]] = {
    "route": {"--method": "--routing", "--also": "--flow", "--pair": "--flow {}:{}"},
    "ror": {
        **_CODE,
        "--method": "--routing",
        "--failed": "--down",
        "--failure-s": "--failure-duration",
        "--between-s": "--failure-interval",
    },
    "demands": {
        **_CODE,
        "--method": "--routing",
        "--total": "--total-rate",
        "--between": "--end-points",
        "--links": "--show-links",
    },
    "stream": {
        **_STREAM,
        **_FT_DRB,
        "--also": "--flow",
        "--background-mbps": "--background-rate {}Mbps",
        "--queues": "--queueing",
        "--blocks": "--probe-blocks",
        "--links": "--max-faults",
        "--precision": "--loss-precision",
        "--silence-ms": "--loss-timeout {}ms",
        "--metapaths-always": "--always-metapaths",
        "--notify": "--failure-notifier",
    },
    "mobility": {
        **_STREAM,
        "--frame-s": "--frame-duration",
        "--handover": {"after": "--handover break-before-make", "before": "--handover make-before-break"},
    },
    "download": {
        "--last-rate": "--last-mile-rate",
        "--size": "--file-size",
        "--method": "--routing",
        "--repeats": "--retries",
    },
    "schedule": {
        **_SEARCH,
        "--unequal": "--message-sizes",
        "--check": "--verify",
        "--draw": "--plot",
        "--remedy": {
            "none": "--on-deadlock report",
            "timeout": "--on-deadlock timeout",
            "virtual-channels": "--on-deadlock virtual-channels",
        },
    },
    "bulk": {
        **_SEARCH,
        **_MACHINES,
        "--alone": "--no-comparison",
        "--deadlock": "--on-deadlock",
        "--inject": "--inject-packets",
        "--store": "--save-messages",
        "--repeats": "--retries",
    },
    "campaign": {"--scheduler": "--dask"},
    "replicate": {
        **_STUDIES,
        "--book": "--report-only",
        "--pages": "--update-docs",
        "--pack": "--compress",
    },
    "experiment": {**_STUDIES, "--extend": "--reuse-points"},
    "allocate": {"--count": "--list"},
    "wavelengths": {
        **_SEARCH,
        "--switching": {"wsxc": "--wavelength-conversion none", "wixc": "--wavelength-conversion full"},
        "--packets": "--packets-per-path",
        "--wrong": "--wrong-wavelength-packets",
    },
    "simulate": {
        **_FT_DRB,
        "--link-bps": "--link-rate",
        "--rate": "--load",
        "--rates": "--loads",
        "--packet-bytes": "--packet-size",
        "--buffer-bytes": "--buffer-size",
        "--ack-bytes": "--ack-size",
        "--header-bytes": "--header-size",
        "--probe-time": "--probe-period",
        "--seeds": "--repetitions",
        "--deadlock": "--deadlock-avoidance",
        "--burst": "--burst-length",
        "--in-phase": "--synchronised",
        "--skip-bad-rows": "--trace-skip-bad-rows",
        "--threshold": "--latency-threshold",
        "--tolerance": "--latency-tolerance",
        "--averaging": "--latency-smoothing",
        "--notifier": "--failure-notifier",
        "--reuse-notifications": "--notification-reuse",
        "--notify-queued": "--notify-queued-sources",
        "--hop-cap": "--hop-limit",
        "--nac-control": "--nac-control-delay",
        "--nac-retry": "--nac-retry-interval",
        "--nac-own-request": "--nac-avoidance-requests",
        "--nac-reserve": "--nac-reserve-slot",
        "--nac-stop-local": "--nac-throttle-injection",
        "--nac-stop-output": "--nac-throttle-output",
        "--nac-recovery-run": "--nac-recovery-signal",
        "--nac-strict-slot": "--nac-slot-until-tail",
        "--nac-identify-anew": "--nac-reidentify",
        "--nac-ask-anew": "--nac-reroute-heads",
        "--nac-timeline": "--nac-trace",
    },
    "up": {**_MACHINES, "--route": "--routing", "--no-shape": "--no-shaping"},
    "run": {
        **_MACHINES,
        "--root": "--subfile-dir",
        "--timeout": "--listener-timeout",
        "--no-shape": "--no-shaping",
    },
    "sfio": {
        **_MACHINES,
        "--block-size": "--access-block-size",
        "--time-limit": "--solver-time-limit",
        "--repeat": "--repetitions",
        "--placement": "--host-selection",
        "--schedule": {"none": "--scheduling none", "liquid": "--scheduling liquid"},
        "--without": "--disable",
        "--fault": "--faults",
        "--save-pattern": "--write-pattern",
        "--root": "--subfile-dir",
        "--repeats": "--retries",
    },
}
"""Command -> former spelling -> present one."""


def present_words(command: str, words: Sequence[str], known: Container[str]) -> list[str]:
    """The words of a command line with every former spelling replaced, and said. ``known``: the options of its parser.

    What follows ``--`` stays. Raises InputError for what has no present form.
    """
    end = words.index("--") if "--" in words else len(words)
    table = {**FORMER.get(command, {}), **_by_rate_unit(words[:end] if command == "simulate" else ())}
    found: list[str] = []
    left = iter(words[:end])
    for word in left:
        found += _present(word, left, table, known)
    return [*found, *words[end:]]


def _present(word: str, left: Iterator[str], table: Mapping[str, Present], known: Container[str]) -> list[str]:
    """What stands for the word, and for those of ``left`` that are its values."""
    option, equals, value = word.partition("=")
    no = "--no-" if option.startswith("--no-") and option not in table else ""
    new = table.get(option.replace("--no-", "--", 1) if no else option)
    if new is None:
        return [word]
    if isinstance(new, Mapping):
        given = value if equals else next(left, "")
        if given not in new or (new[given] and new[given].split()[0] not in known):
            return [word] if equals else [word, *([given] if given else [])]
        return _said(f"{option} {given}", new[given].split())
    name = new.partition(" ")[0].replace("--", no or "--", 1)
    if option in known or name not in known:
        return [word]
    if "{}" in new:
        values = [value] if equals else [one for _, one in zip(range(new.count("{}")), left, strict=False)]
        if len(values) < new.count("{}"):
            return [name]
        return _said(" ".join((option, *values)), new.format(*values).split(" ", 1))
    _said(option, [name])
    return [name + equals + value]


def _said(former: str, present: list[str]) -> list[str]:
    if "TESTBED_SANDBOX" not in os.environ:  # there the same command line is read a second time
        complain(f"{former} is now {' '.join(present)}" if present else f"{former} is no longer needed")
    return present


def _by_rate_unit(words: Sequence[str]) -> Mapping[str, Present]:
    """What --rate and --rate-unit of ``simulate`` stand for: a fraction of a link and packets a second are two options
    now."""
    said = {word.partition("=")[0] for word in words}
    if "--rate-unit" not in said:
        return {}
    counted = any("packets/s" in word for word in words)
    if counted and said & {"--rates", "--loads"}:
        raise InputError("--rate-unit packets/s with --rates: give --loads A:B:STEP, fractions of a link")
    return {
        **({"--rate": "--packet-rate"} if counted else {}),
        "--rate-unit": {"fraction": "", "packets/s": ""},
    }
