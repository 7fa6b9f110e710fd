"""What other packages' studies import: ``Study`` with ``main``, for a study that is run by itself."""

from collections.abc import Sequence

from testbed.commands.studies.study_runner import drawn as drawn
from testbed.commands.studies.study_runner import run_study
from testbed.model.studies.study import Study as StudyValue


class Study(StudyValue):
    """A study that runs itself: ``STUDY.main()`` at the end of a program is ``testbed experiment run NAME``."""

    def main(self, argv: Sequence[str] | None = None, program: str | None = None) -> int:
        """Parse options, measure what is missing, judge, draw; returns the exit code."""
        return run_study(self, argv, program)
