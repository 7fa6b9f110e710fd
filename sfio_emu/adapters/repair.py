"""Check whether the subfiles of a striped file have the sizes of one file, and repair it.

A file can be damaged by a full disk, the end of a client that appended, or the loss of a subfile.
Run `python -m sfio_emu.adapters.repair NAME [--cut | --fill]`. SFIO_LISTENERS names the listeners.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Literal, NamedTuple

from sfio_emu.adapters.command_line import OneLineParser
from sfio_emu.adapters.environment import session_alone
from sfio_emu.client.catalogue import rename_file, require_files, stat_files, stat_present
from sfio_emu.client.opening import Condition, condition, locked, make_lost_subfiles
from sfio_emu.client.retaining import drop_retained, put_back, retained_name
from sfio_emu.client.session import Session
from sfio_emu.errors import SfioError, UsageError
from sfio_emu.message_bodies import Stat
from sfio_emu.names import SubfileName, parse_file_name
from sfio_emu.striped_file import StripedFile

Way = Literal["cut", "fill"]


class Report(NamedTuple):
    """The result of a check or repair.

    Attributes:
        text: What was found, and what can be done or was done.
        whole: Whether the file is complete now.
    """

    text: str
    whole: bool


def repair(name: str, stripe_unit: int | None, way: Way | None, session: Session) -> Report:
    """Check a striped file, and repair it if a way is given.

    Args:
        name: The name of the file.
        stripe_unit: The stripe unit in bytes, for a file with which none is stored.
        way: "cut" leaves the bytes before the first missing one. "fill" leaves all bytes, and puts
            zeros at the positions of missing ones. None changes nothing.
        session: The session.

    Raises:
        SfioError: The file cannot be queried or changed.
    """
    subfiles = parse_file_name(name)
    retained = _put_back(session, subfiles, change=way is not None)
    answers = stat_present(session, subfiles)
    require_files(subfiles, answers, "name a file")
    state, culprit = condition(answers)
    retained_names = ", ".join(str(retained_name(subfile)) for subfile in retained)
    if state is Condition.MIXED:
        # A renaming was interrupted.
        hint = f" ({retained_names}: of the file that was replaced)" if retained else ""
        return Report(
            f"{name}: {subfiles[culprit]} is another file's than those before it: "
            "finish the renaming (--from NAME), delete the file, "
            "or rename the subfiles of one of the two, each alone (mrename), "
            f"to where the others are{hint}",
            False,
        )
    if retained and way is None:
        return Report(
            f"{name}: a change of its names was interrupted: --cut or --fill completes it; "
            f"retained meanwhile: {retained_names}",
            False,
        )
    has_layouts = all(answer is not None and answer.layout for answer in answers)
    if state is Condition.ONE and has_layouts:
        drop_retained(session, retained)
    if stripe_unit is None:
        stripe_unit = _stored_unit(session, subfiles, answers)
    if state is Condition.LOST:
        if way is None:
            return Report(f"{name}: {_loss(subfiles, answers)}", False)
        make_lost_subfiles(session, subfiles, stripe_unit)
    return _repair_sizes(name, stripe_unit, way, session)


def _repair_sizes(name: str, stripe_unit: int, way: Way | None, session: Session) -> Report:
    """Check the sizes of the subfiles, and repair them if a way is given."""
    mode = "r" if way is None else "r+"
    with StripedFile.open(name, stripe_unit, mode=mode, session=session) as file:
        extent = file.extent()
        if extent.whole:
            return Report(f"{file.name}: {extent.size} bytes, complete", True)
        text = (
            f"{file.name}: {extent.size} bytes in its subfiles, "
            f"readable without a gap up to byte {extent.readable}, "
            f"its last byte at {extent.end - 1}"
        )
        if way is None:
            return Report(
                f"{text}: these are not the sizes of one file; give --cut or --fill", False
            )
        size = file.truncate(extent.readable if way == "cut" else extent.end)
        return Report(f"{text}: made {size} bytes", file.extent().whole)


def _stored_unit(
    session: Session, subfiles: Sequence[SubfileName], answers: Sequence[Stat | None]
) -> int:
    """Return the stripe unit that is stored with a subfile.

    Args:
        session: The session.
        subfiles: The names of the subfiles.
        answers: The status of each subfile; None if it is missing.

    Raises:
        UsageError: None is stored.
        RemoteFailure: None is stored, and a subfile is missing.
    """
    for answer in answers:
        if answer is not None and answer.layout:
            return answer.layout.stripe_unit
    stat_files(session, subfiles)
    raise UsageError("no stripe unit is stored with the file: give --stripe-unit")


def _loss(subfiles: Sequence[SubfileName], answers: Sequence[Stat | None]) -> str:
    """Describe a file of which a subfile is missing or was replaced."""
    lost = []
    without_layout = []
    for subfile, answer in zip(subfiles, answers, strict=True):
        if answer is None or not (answer.layout or answer.size):
            lost.append(str(subfile))
        if answer is not None and not answer.layout:
            without_layout.append(str(subfile))
    if not lost:
        return (
            f"nothing is stored with {', '.join(without_layout)}, a copy without attributes?: "
            "--cut or --fill takes it as it is"
        )
    return (
        f"what was in {', '.join(lost)} is lost "
        "(or was renamed by a client that was killed: rename it again); "
        "--cut keeps the bytes before the first that is missing, "
        "--fill all others, with zeros between them"
    )


def _put_back(
    session: Session, subfiles: Sequence[SubfileName], *, change: bool
) -> list[SubfileName]:
    """Return the subfiles for which an interrupted change of names has retained something.

    Args:
        session: The session.
        subfiles: The names of the subfiles.
        change: Give retained subfiles that belong to the file and are missing their names again.
    """
    retained_names = [retained_name(subfile) for subfile in subfiles]
    retained: dict[SubfileName, Stat] = {}
    for subfile, status in zip(subfiles, stat_present(session, retained_names), strict=True):
        if status is not None:
            retained[subfile] = status
    if not change or not retained:
        return list(retained)
    with locked(session, subfiles):
        answers = stat_present(session, subfiles)
        ids = {answer.layout.file_id for answer in answers if answer is not None}
        if not ids:
            # All subfiles are missing. The file is that of the first retained subfile.
            first_status = next(iter(retained.values()))
            ids = {first_status.layout.file_id}
        belonging = []
        for subfile, status in retained.items():
            if status.layout.file_id in ids:
                belonging.append(subfile)
        put_back(session, belonging)
    return list(retained)


def _build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m sfio_emu.adapters.repair", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the file: 'host/path;host/path'")
    parser.add_argument(
        "--stripe-unit",
        type=int,
        metavar="BYTES",
        help="stripe unit of the file, if none is stored with it",
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--cut",
        dest="way",
        action="store_const",
        const="cut",
        help="leave the bytes before the first missing one",
    )
    ways.add_argument(
        "--fill",
        dest="way",
        action="store_const",
        const="fill",
        help="leave all bytes, with zeros in the gaps",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="NAME",
        help="finish an interrupted renaming of the file from NAME",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit code: 0 if the file is complete, 1 if not, 2 if it cannot be queried or changed.
    """
    options = _build_parser().parse_args(arguments)
    try:
        session = session_alone()
        if options.source is not None:
            rename_file(session, options.source, options.name, replace=True)
        report = repair(options.name, options.stripe_unit, options.way, session)
    except SfioError as error:
        print(f"repair: {error}", file=sys.stderr)
        return 2
    print(report.text)
    return 0 if report.whole else 1


if __name__ == "__main__":
    sys.exit(main())
