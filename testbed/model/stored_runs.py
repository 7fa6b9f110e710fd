"""Stored runs of studies, complete or not, as a replication and its book describe them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from testbed.model.run_records import Manifest
from testbed.model.verdict import CheckOutcome, Verdict

RunState = Literal["passed", "failed", "cannot-tell", "invalid", "unfinished", "computed"]
STATES: dict[CheckOutcome, RunState] = {
    "holds": "passed",
    "fails": "failed",
    "cannot-tell": "cannot-tell",
}
# Sizes of a run, the largest last.
SIZES = ("quick", "own options", "full")


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A stored run.

    Attributes:
        directory: Directory of the run.
        manifest: The description of the run.
        points: Number of points or sessions that are stored.
        verdict: None if the run did not end, or has none because it only computed something.
        drawings: Names of the SVG files in the directory.
        computed: Whether it is the answer of a command that only computes, such as ``testbed ror``.
    """

    directory: PurePath
    manifest: Manifest
    points: int
    verdict: Verdict | None
    drawings: tuple[str, ...] = ()
    computed: bool = False

    @property
    def name(self) -> str:
        """The name under which runs of this kind are stored."""
        return self.manifest.name

    @property
    def size(self) -> str:
        """The size of the run: ``quick``, ``full`` or ``own options``.

        If the manifest does not contain the size, it is derived from the command line.
        """
        stored_size = self.manifest.study.get("size")
        if stored_size:
            return str(stored_size)
        return "quick" if "--quick" in self.manifest.command.split() else "full"

    @property
    def state(self) -> RunState:
        """The outcome of the run in one word."""
        if self.computed:
            return "computed"
        if self.verdict is None:
            return "unfinished"
        if self.verdict.invalid is not None:
            return "invalid"
        return STATES[self.verdict.outcome]


def representative_run(runs: Iterable[StoredRun]) -> StoredRun | None:
    """Return the run that represents a study, or None if there is no run.

    Valid runs with points are preferred to others, then larger sizes, then complete runs, and then
    newer ones.
    """

    def rank(run: StoredRun) -> tuple[bool, int, bool, str]:
        return (
            run.state != "invalid" and run.points > 0,
            SIZES.index(run.size),
            run.verdict is not None,
            run.manifest.run,
        )

    return max(runs, key=rank, default=None)
