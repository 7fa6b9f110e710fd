"""Says whether the subfiles of a striped file have the sizes of one file, and makes them so: after a full disk, the end
of a client that appended, or the loss of a subfile. `python -m sfio_emu.adapters.repair NAME [--cut | --fill]`, over
the listeners of SFIO_LISTENERS."""

import sys
from collections.abc import Sequence

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


def repair(
    name: str, stripe_unit: int | None, way: str | None, session: Session
) -> tuple[str, bool]:
    """What there is to say of the file, and whether it is whole now.

    `way`: "cut" leaves what can be read without a gap, "fill" keeps every byte and puts zeros where some are missing;
    None changes nothing. `stripe_unit`: where none is stored with the file. Raises `SfioError`.
    """
    subfiles = parse_file_name(name)
    retained = _put_back(session, subfiles, change=way is not None)
    found = stat_present(session, subfiles)
    require_files(subfiles, found, "name a file")
    state, culprit = condition(found)
    retained_text = ", ".join(str(retained_name(one)) for one in retained)
    if state is Condition.MIXED:  # a rename was broken off
        hint = f" ({retained_text}: of the file that was replaced)" if retained else ""
        return (
            f"{name}: {subfiles[culprit]} is another file's than those before it: finish the renaming (--from NAME),"
            " delete the file, or rename the subfiles of one of the two, each alone (mrename), to where the others"
            f" are{hint}",
            False,
        )
    if retained and way is None:
        return (
            f"{name}: a change of it was broken off: --cut or --fill ends it; retained meanwhile: {retained_text}",
            False,
        )
    if state is Condition.ONE and all(one is not None and one.layout for one in found):
        drop_retained(session, retained)
    if stripe_unit is None:
        known = [one.layout.stripe_unit for one in found if one is not None and one.layout]
        if not known:
            stat_files(session, subfiles)
            raise UsageError("no stripe unit is stored with the file: give --stripe-unit")
        stripe_unit = known[0]
    if state is Condition.LOST:
        if way is None:
            return f"{name}: {_lost(subfiles, found)}", False
        make_lost_subfiles(session, subfiles, stripe_unit)
    with StripedFile.open(
        name, stripe_unit, mode="r" if way is None else "r+", session=session
    ) as file:
        extent = file.extent()
        if extent.whole:
            return f"{file.name}: {extent.size} bytes, whole", True
        said = (
            f"{file.name}: {extent.size} bytes in its subfiles, readable without a gap up to byte {extent.readable},"
            f" its furthest byte at {extent.end - 1}"
        )
        if way is None:
            return f"{said}: not the sizes of one file; give --cut or --fill", False
        size = file.truncate(extent.readable if way == "cut" else extent.end)
        return f"{said}: made {size} bytes", file.extent().whole


def _lost(subfiles: Sequence[SubfileName], found: Sequence[Stat | None]) -> str:
    """What there is to say of a file of which something is missing."""
    names = list(zip(map(str, subfiles), found, strict=True))
    lost = ", ".join(name for name, one in names if one is None or not (one.layout or one.size))
    if not lost:
        bare = ", ".join(name for name, one in names if one is not None and not one.layout)
        return f"nothing is stored with {bare}, a copy without attributes?: --cut or --fill takes it as it is"
    return (
        f"what was in {lost} is lost (or was renamed by a client that was killed: rename it again); --cut keeps the"
        " bytes before the first that is missing, --fill all others, with zeros between them"
    )


def _put_back(
    session: Session, subfiles: Sequence[SubfileName], *, change: bool
) -> list[SubfileName]:
    """The subfiles of whose names a change was broken off, so that something is retained. `change`: what is of the file
    and missing gets its name again."""
    stats = zip(
        subfiles, stat_present(session, [retained_name(one) for one in subfiles]), strict=True
    )
    retained = {one: there for one, there in stats if there is not None}
    if not change or not retained:
        return list(retained)
    with locked(session, subfiles):
        found = stat_present(session, subfiles)
        ids = {one.layout.file_id for one in found if one is not None} or {
            next(iter(retained.values())).layout.file_id
        }
        put_back(session, [one for one, there in retained.items() if there.layout.file_id in ids])
    return list(retained)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 whole, 1 not whole, 2 what cannot be queried or changed."""
    parser = OneLineParser(prog="python -m sfio_emu.adapters.repair", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the file: 'host/path;host/path'")
    parser.add_argument(
        "--stripe-unit", type=int, metavar="BYTES", help="where none is stored with the file"
    )
    paths = parser.add_mutually_exclusive_group()
    paths.add_argument(
        "--cut",
        dest="way",
        action="store_const",
        const="cut",
        help="leave what is read without a gap",
    )
    paths.add_argument(
        "--fill", dest="way", action="store_const", const="fill", help="keep all, zeros in the gaps"
    )
    parser.add_argument(
        "--from", dest="source", metavar="NAME", help="finish its renaming from NAME, broken off"
    )
    options = parser.parse_args(arguments)
    try:
        session = session_alone()
        if options.source is not None:
            rename_file(session, options.source, options.name, replace=True)
        said, whole = repair(options.name, options.stripe_unit, options.way, session)
    except SfioError as error:
        print(f"repair: {error}", file=sys.stderr)
        return 2
    print(said)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
