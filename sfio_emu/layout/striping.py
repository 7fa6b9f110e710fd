"""The cyclic distribution of a logical file over its subfiles.

With n subfiles, stripe unit i of the file (bytes [i*u, (i+1)*u)) is unit i // n of subfile i % n
(Gabrielyan 2007, section 2.5, figure 11).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sfio_emu.errors import UsageError, whole_number

# Offsets stay below this, so that the sum of two offsets fits into int64.
MAX_OFFSET = 2**62


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """A contiguous part of the file inside one stripe unit.

    Attributes:
        subfile: The number of the subfile.
        local_offset: The offset in the subfile in bytes.
        offset: The offset in the file in bytes.
        size: The size in bytes.
    """

    subfile: int
    local_offset: int
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The distribution of a file over `subfiles` subfiles in units of `stripe_unit` bytes.

    >>> layout = Layout(stripe_unit=5, subfiles=2)
    >>> layout.subfile_sizes(35), layout.logical_size([20, 15])
    ((20, 15), 35)
    """

    stripe_unit: int
    subfiles: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "stripe_unit", whole_number(self.stripe_unit, "stripe unit", 1))
        object.__setattr__(self, "subfiles", whole_number(self.subfiles, "number of subfiles", 1))
        if self.stripe_unit * self.subfiles > MAX_OFFSET:
            raise UsageError(
                f"the stripe unit is {self.stripe_unit}: "
                "a round over all subfiles must stay below 2^62 bytes"
            )

    @property
    def round_bytes(self) -> int:
        """The number of bytes of the file in one stripe unit of each subfile."""
        return self.stripe_unit * self.subfiles

    def share(self, end: int, subfile: int) -> int:
        """Return how many of the first `end` bytes of the file are in the subfile.

        This is also the offset in the subfile at which its part of [0, end) ends.
        """
        rounds, remainder = divmod(end, self.stripe_unit * self.subfiles)
        remainder -= subfile * self.stripe_unit
        return rounds * self.stripe_unit + min(max(remainder, 0), self.stripe_unit)

    def logical_offset(self, subfile: int, local_offset: int) -> int:
        """Return the offset in the file of the byte at `local_offset` of the subfile."""
        unit, inside = divmod(local_offset, self.stripe_unit)
        return (unit * self.subfiles + subfile) * self.stripe_unit + inside

    def subfile_sizes(self, logical_size: int) -> tuple[int, ...]:
        """Return the sizes of the subfiles of a file of `logical_size` bytes."""
        size = whole_number(logical_size, "size of the file")
        return tuple(self.share(size, subfile) for subfile in range(self.subfiles))

    def logical_size(self, subfile_sizes: list[int] | tuple[int, ...]) -> int:
        """Return the size of the file, which is the sum of the sizes of its subfiles."""
        if len(subfile_sizes) != self.subfiles:
            raise UsageError(
                f"{len(subfile_sizes)} sizes for {self.subfiles} subfiles: give one for each"
            )
        return sum(subfile_sizes)

    def fragments(self, offset: int, size: int) -> Iterator[Fragment]:
        """Yield the fragments of bytes [offset, offset + size), in the order of the file."""
        end = offset + size
        while offset < end:
            unit, inside = divmod(offset, self.stripe_unit)
            rounds, subfile = divmod(unit, self.subfiles)
            length = min(self.stripe_unit - inside, end - offset)
            yield Fragment(
                subfile=subfile,
                local_offset=rounds * self.stripe_unit + inside,
                offset=offset,
                size=length,
            )
            offset += length
