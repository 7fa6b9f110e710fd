"""The class ``Study`` with ``main``, which studies of other packages import."""

from collections.abc import Sequence

from testbed.commands.studies.study_runner import drawn as drawn
from testbed.commands.studies.study_runner import run_study
from testbed.model.studies.study import Study as StudyValue


class Study(StudyValue):
    """A study that can run itself.

    ``STUDY.main()`` at the end of a program does the same as ``testbed experiment run NAME``.
    """

    def main(self, argv: Sequence[str] | None = None, program: str | None = None) -> int:
        """Measure the missing points, judge and draw, and return the exit code.

        Args:
            argv: The options; None for those of this process.
            program: The command line before the options, for messages.
        """
        return run_study(self, argv, program)
