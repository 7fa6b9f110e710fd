"""What is mutated, and which tests have to find it: rooms of pure code and the judging of every workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Package:
    """Code of the project to mutate.

    ``places``: its folders and files. ``left_out``: files and folders of them that stay as they are, with the reason.
    ``tests``: where the tests lie, or one function or case of a file (``FILE::NAME``); of a mutant run those that
    execute it. ``deselect``: pytest's -k, for what is too slow to be run once a mutant. ``interpret``: run numba's
    functions as plain Python, so that a mutant of a kernel is not compiled anew.
    """

    name: str
    places: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    deselect: str = ""
    interpret: bool = True

    def modules(self, root: Path) -> list[Path]:
        """The package's modules below ``root`` that are mutated, relative to it, in order."""
        spared = [root / place for place, _ in self.left_out]
        found = [file for place in self.places for file in python_files(root / place)]
        return [
            m.relative_to(root) for m in found if not any(m == s or s in m.parents for s in spared)
        ]


def python_files(place: Path) -> list[Path]:
    """The file, or all below the folder, in order."""
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


RECORDED = "tests/recorded/test_recorded.py"


def documents(*names: str) -> tuple[str, ...]:
    """Recorded commands by name."""
    return tuple(f"{RECORDED}::test_exit_code_and_json_are_as_recorded[{name}]" for name in names)


def examples(*modules: str) -> tuple[str, ...]:
    """Examples in docstrings of the modules."""
    return tuple(
        f"tests/test_doctests.py::test_a_modules_examples_are_true[{name}]" for name in modules
    )


STREAMS = tuple(
    f"stream-{name}"
    for name in ("each-link", "blackhole", "loss", "poisson", "file", "none", "two", "ecmp")
)

PACKAGES = (
    Package(
        name="capillary",
        places=("testbed/routing/capillary",),
        tests=(
            "tests/testbed/routing/capillary",
            *documents("route-capillary", "route-layers", "ror-methods"),
        ),
    ),
    Package(
        name="fec",
        places=("fec",),
        tests=(
            "tests/fec",
            "tests/testbed/stream/test_parity_in_time.py",
            *documents(*STREAMS, "download"),
        ),
        left_out=(
            ("fec/adapters", "libraries and sockets of the outside world: tried on real switches"),
        ),
        interpret=False,  # its search of label orders takes minutes as plain Python
    ),
    Package(
        name="fast",
        places=("testbed/scheduling/fast",),
        tests=(
            "tests/testbed/scheduling/fast",
            *documents("schedule-pairs", "schedule-liquid", "bulk-circuit"),
        ),
        deselect="not smallest_traffic_without_a_liquid_schedule",
    ),
    Package(
        name="judgement",
        places=("testbed/stream/judgement",),
        tests=(
            "tests/testbed/stream/judgement",
            "tests/testbed/stream/test_impaired_streams.py",
            *(
                f"tests/testbed/stream/prediction/test_{name}.py"
                for name in ("loss_by_path", "epochs", "diagnosing_sender")
            ),
            *documents("stream-poisson", "stream-file", "mobility"),
        ),
        deselect="not a_wrong_sender_fails",  # thirty long runs, which other tests find out sooner
        interpret=False,  # it has no kernel of its own, and those that its tests call are slow as plain Python
    ),
    Package(
        name="striping",
        places=("sfio_emu/layout",),
        tests=(
            "tests/sfio_emu/layout",
            *documents("sfio-write", "sfio-both", "sfio-strided"),
        ),
    ),
    Package(
        name="faults",
        places=("testbed/faults",),
        tests=(
            "tests/testbed/faults",
            "tests/testbed/stream/test_impaired_streams.py",
            *examples(
                *(
                    f"testbed.faults.{name}"
                    for name in ("fault", "grammar", "impaired_link", "link_settings")
                )
            ),
            *documents("stream-poisson", "stream-file", "mobility", "simulate-ft-drb"),
        ),
        interpret=False,
    ),
    Package(
        name="bulk",
        places=tuple(
            f"testbed/bulk/{name}.py" for name in ("judgement", "calibration", "measurements")
        ),
        tests=(
            *(
                f"tests/testbed/bulk/test_{name}.py"
                for name in ("bulk_judgement", "bulk_by_hand", "calibration", "bulk_in_parts")
            ),
            *documents("bulk-circuit", "bulk-packet", "bulk-pattern", "bulk-faults"),
        ),
        interpret=False,
    ),
    Package(
        name="sfio",
        places=tuple(
            f"testbed/striping/{name}.py"
            for name in ("judgement", "prediction", "oracle", "measurements")
        ),
        tests=(
            *(
                f"tests/testbed/striping/test_{name}.py"
                for name in ("striping_plans", "striping_keeps_up")
            ),
            *documents("sfio-write", "sfio-both", "sfio-strided"),
            *examples("testbed.striping.oracle"),
        ),
        interpret=False,
    ),
    Package(
        name="download",
        places=tuple(f"testbed/download/{name}.py" for name in ("judgement", "prediction")),
        tests=(
            "tests/testbed/download/test_download_verdict.py",
            "tests/testbed/stream/judgement/test_foresight.py",
            *documents("download", "download-reed-solomon", "download-constant-rate"),
        ),
        interpret=False,
    ),
    Package(
        name="metapath",
        places=tuple(
            f"testbed/metapath/{name}.py"
            for name in (
                "judgement",
                "analysis",
                "escape_check",
                "cable_states",
                "coded_deliveries",
            )
        ),
        tests=(
            *(
                f"tests/testbed/metapath/test_{name}.py"
                for name in (
                    "metapath_verdict",
                    "metapath_limits",
                    "metapath_timing",
                    "cable_states",
                    "escape_rules",
                    "escapes_hold",
                )
            ),
            *examples("testbed.metapath.analysis"),
        ),
        interpret=False,
    ),
)
