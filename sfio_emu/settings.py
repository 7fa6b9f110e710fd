"""The settings of a session and what it counts: each optimisation has a switch, and a figure that shows its effect."""

from dataclasses import dataclass

from sfio_emu.errors import UsageError, whole_number

CALLS = ("open", "close", "creat", "unlink", "ftruncate", "lseek", "write", "read")
"""The calls of which Gabrielyan 2007, appendix A.3, has error statistics."""
ALL_CALLS = (*CALLS, "rename", "stat", "readdir", "fsync", "mkdir", "rmdir")
COUNTED = (*ALL_CALLS, "rejected")
"""What a listener counts: failed calls, and messages that it refused."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The optimisations of the `c` and `b` functions (Gabrielyan 2007, sections 2.6 and 2.7).

    `sort`: requests of a call in the order of their offsets; `merge`: overlapping and consecutive ones become one;
    `combine`: one message an I/O node instead of one a request; `pipeline`: `window` messages in transit instead of
    one, so that disk and network work at the same time. `message_bytes` bounds a message next to what the listener
    allows. `check_data` protects what is written by a checksum of its own (XXH3), `check_reads` what is read. Heads and
    bodies always have checksums.
    """

    sort: bool = True
    merge: bool = True
    combine: bool = True
    pipeline: bool = True
    check_data: bool = True
    check_reads: bool = True
    window: int = 8
    message_bytes: int = (2 << 20) + 4096

    def __post_init__(self) -> None:
        for name in ("sort", "merge", "combine", "pipeline", "check_data", "check_reads"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(
                    f"the setting {name} is {getattr(self, name)!r}: give True or False"
                )
        object.__setattr__(self, "window", whole_number(self.window, "window (messages)", 1))
        size = whole_number(self.message_bytes, "largest message (bytes)", 4096)
        object.__setattr__(self, "message_bytes", size)

    @property
    def in_flight(self) -> int:
        """How many messages may be sent to a listener before it has answered the first of them."""
        return self.window if self.pipeline else 1


@dataclass(kw_only=True)
class TransferCounters:
    """What a file (or a session) has done: messages sent, fragments (pieces of memory) and requests (runs of a
    subfile) in them, calls of the disk reported by the listeners, data bytes, and messages that were rejected."""

    messages: int = 0
    fragments: int = 0
    requests: int = 0
    disk_calls: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    rejected: int = 0

    def add(self, other: "TransferCounters") -> None:
        """Count what another counter has counted."""
        mine = vars(self)
        for name, count in vars(other).items():
            if count:
                mine[name] += count
