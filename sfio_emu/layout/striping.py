"""The cyclic distribution of a logical file over subfiles: arithmetic, nothing else. Stripe unit i (bytes [i*u,
(i+1)*u) of the file) is unit i // n of subfile i % n (Gabrielyan 2007, section 2.5, figure 11)."""

from collections.abc import Iterator
from dataclasses import dataclass

from sfio_emu.errors import UsageError, whole_number

MAX_OFFSET = 2**62


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """A piece of the file inside one stripe unit: `size` bytes at `offset` of the file and `local_offset` of
    `subfile`."""

    subfile: int
    local_offset: int
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file is on `subfiles` subfiles in units of `stripe_unit` bytes.

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
                f"the stripe unit is {self.stripe_unit}: a round over all subfiles must stay below 2^62 bytes"
            )

    @property
    def round_bytes(self) -> int:
        """Bytes of the file in one round over all the subfiles."""
        return self.stripe_unit * self.subfiles

    def share(self, end: int, subfile: int) -> int:
        """How many of the first `end` bytes of the file lie on `subfile`: where its share of [0, end) ends."""
        rounds, rest = divmod(end, self.stripe_unit * self.subfiles)
        rest -= subfile * self.stripe_unit
        return rounds * self.stripe_unit + min(max(rest, 0), self.stripe_unit)

    def logical_offset(self, subfile: int, local_offset: int) -> int:
        """The place in the file of byte `local_offset` of `subfile`."""
        unit, inside = divmod(local_offset, self.stripe_unit)
        return (unit * self.subfiles + subfile) * self.stripe_unit + inside

    def subfile_sizes(self, logical_size: int) -> tuple[int, ...]:
        """The sizes of the subfiles of a file of `logical_size` bytes; their sum is `logical_size`."""
        size = whole_number(logical_size, "size of the file")
        return tuple(self.share(size, subfile) for subfile in range(self.subfiles))

    def logical_size(self, subfile_sizes: list[int] | tuple[int, ...]) -> int:
        """The size of the file: the sum of the sizes of its subfiles."""
        if len(subfile_sizes) != self.subfiles:
            raise UsageError(
                f"{len(subfile_sizes)} sizes for {self.subfiles} subfiles: give one for each"
            )
        return sum(subfile_sizes)

    def fragments(self, offset: int, size: int) -> Iterator[Fragment]:
        """The fragments of bytes [offset, offset + size), in the order of the file."""
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
