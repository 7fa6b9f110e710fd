"""A study's run as it is on disk: what a replication and its book know of it, whole or not."""

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
SIZES = ("quick", "own options", "full")


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A stored run.

    Attributes:
        points: Points or sessions that are stored.
        verdict: None if the run did not end, or has none because it only computed something.
        drawings: The SVG files next to it.
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
        return self.manifest.name

    @property
    def size(self) -> str:
        """``quick``, ``full`` or ``own options``; of a run that does not say it, by its command."""
        known = self.manifest.study.get("size")
        return (
            str(known)
            if known
            else "quick"
            if "--quick" in self.manifest.command.split()
            else "full"
        )

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
    """The run that speaks for its study: the largest size, whole before part, valid before invalid, the newest; None of
    none."""

    def rank(run: StoredRun) -> tuple[bool, int, bool, str]:
        return (
            run.state != "invalid" and run.points > 0,
            SIZES.index(run.size),
            run.verdict is not None,
            run.manifest.run,
        )

    return max(runs, key=rank, default=None)
