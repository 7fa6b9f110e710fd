"""What is mutated, and which tests have to find it: six rooms of pure code, each with the tests that mirror it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Package:
    """A folder of the project to mutate.

    ``left_out``: files and folders of it that stay as they are, with the reason. ``tests``: where the tests lie; those
    that mirror the mutated module's folder run first. ``deselect``: words of tests (pytest's -k) that are too slow to
    run once a mutant. ``interpret``: run numba's functions as plain Python, so that a mutant of a kernel is not
    compiled anew.
    """

    name: str
    folder: str
    tests: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    deselect: str = ""
    interpret: bool = True

    def modules(self, root: Path) -> list[Path]:
        """The package's modules below ``root`` that are mutated, relative to it, in order."""
        spared = [root / self.folder / place for place, _ in self.left_out]
        found = sorted((root / self.folder).rglob("*.py"))
        return [m.relative_to(root) for m in found if not any(m == s or s in m.parents for s in spared)]

    def test_words(self, root: Path, module: Path) -> list[str]:
        """pytest's arguments for a mutant of the module: the mirrored folder's tests first, then all of the package."""
        mirror = Path("tests") / module.parent
        near = [str(mirror)] if (root / mirror).is_dir() else []
        chosen = "not emulation" if not self.deselect else self.deselect
        return [*near, *self.tests, "-m", "not emulation", *(["-k", chosen] if self.deselect else [])]


PACKAGES = (
    Package(name="capillary", folder="testbed/routing/capillary", tests=("tests/testbed/routing/capillary",)),
    Package(
        name="fec",
        folder="fec",
        tests=("tests/fec",),
        left_out=(("adapters", "libraries and sockets of the outside world: tried on real switches"),),
        interpret=False,  # its search of label orders takes minutes as plain Python
    ),
    Package(
        name="fast",
        folder="testbed/scheduling/fast",
        tests=("tests/testbed/scheduling/fast",),
        deselect="not smallest_traffic_without_a_liquid_schedule",
    ),
    Package(
        name="judgement",
        folder="testbed/stream/judgement",
        tests=(
            "tests/testbed/stream/judgement",
            "tests/testbed/stream/test_impaired_streams.py",
            *(
                f"tests/testbed/stream/prediction/test_{name}.py"
                for name in ("loss_by_path", "epochs", "diagnosing_sender")
            ),
        ),
        interpret=False,  # it has no kernel of its own, and those that its tests call are slow as plain Python
    ),
    Package(
        name="striping",
        folder="sfio_emu/layout",
        tests=("tests/sfio_emu/layout",),
        interpret=False,  # its kernel reads memory through numba's intrinsics, which plain Python has not
    ),
    Package(name="faults", folder="testbed/faults", tests=("tests/testbed/faults",)),
)
