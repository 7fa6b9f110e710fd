"""Says whether the subfiles of a striped file have the sizes of one file, and makes them so: after a full disk, or a
client that died while it appended. `python -m sfio_emu.adapters.repair NAME [--cut | --fill]`, over the listeners of
SFIO_LISTENERS."""

import sys
from collections.abc import Sequence

from sfio_emu.adapters.command_line import OneLineParser
from sfio_emu.client.catalogue import mstat
from sfio_emu.client.current_session import current_session
from sfio_emu.client.session import Session
from sfio_emu.errors import SfioError, UsageError
from sfio_emu.striped_file import StripedFile


def repair(name: str, stripe_unit: int | None, way: str | None, session: Session) -> tuple[str, bool]:
    """What there is to say of the file, and whether it is whole now.

    `way`: "cut" leaves what can be read without a gap, "fill" keeps every byte and puts zeros where some are missing;
    None changes nothing. `stripe_unit`: where none is stored with the file. Raises `SfioError`.
    """
    if stripe_unit is None:
        layout = mstat(name, session).layout
        if layout is None:
            raise UsageError("no stripe unit is stored with the file: give --stripe-unit")
        stripe_unit = layout.stripe_unit
    with StripedFile.open(name, stripe_unit, mode="r" if way is None else "r+", session=session) as file:
        found = file.extent()
        if found.whole:
            return f"{file.name}: {found.size} bytes, whole", True
        said = (
            f"{file.name}: {found.size} bytes in its subfiles, readable without a gap up to byte {found.readable},"
            f" its furthest byte at {found.end - 1}"
        )
        if way is None:
            return f"{said}: not the sizes of one file; give --cut or --fill", False
        size = file.truncate(found.readable if way == "cut" else found.end)
        return f"{said}: made {size} bytes", file.extent().whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 whole, 1 not whole, 2 what cannot be asked or changed."""
    parser = OneLineParser(prog="python -m sfio_emu.adapters.repair", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the file: 'host/path;host/path'")
    parser.add_argument("--stripe-unit", type=int, metavar="BYTES", help="where none is stored with the file")
    paths = parser.add_mutually_exclusive_group()
    paths.add_argument("--cut", dest="way", action="store_const", const="cut", help="leave what is read without a gap")
    paths.add_argument("--fill", dest="way", action="store_const", const="fill", help="keep all, zeros in the gaps")
    options = parser.parse_args(arguments)
    try:
        said, whole = repair(options.name, options.stripe_unit, options.way, current_session())
    except SfioError as error:
        print(f"repair: {error}", file=sys.stderr)
        return 2
    print(said)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
