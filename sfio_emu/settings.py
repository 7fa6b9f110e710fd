"""The settings of a session, and the counters of what it does.

Each optimisation has a switch here, and a counter that shows its effect.
"""

from dataclasses import dataclass

from sfio_emu.errors import UsageError, whole_number

# The system calls for which Gabrielyan 2007, appendix A.3, defines error statistics.
CALLS = ("open", "close", "creat", "unlink", "ftruncate", "lseek", "write", "read")

# All system calls whose failures a listener counts.
ALL_CALLS = (*CALLS, "rename", "stat", "readdir", "fsync", "mkdir", "rmdir")

# The counters of a listener: failed system calls, and messages that it rejected.
COUNTED = (*ALL_CALLS, "rejected")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The optimisations of the `c` and `b` functions (Gabrielyan 2007, sections 2.6 and 2.7).

    Headers and bodies of messages always have checksums.

    Attributes:
        sort: Sort the requests of a call by their offsets.
        merge: Merge overlapping and consecutive requests of a call.
        combine: Send one message to each I/O node instead of one per request.
        pipeline: Allow `window` messages in transit instead of one, so that disk and network work
            at the same time.
        check_data: Protect written data by a checksum (XXH3).
        check_reads: Protect read data by a checksum (XXH3).
        window: Maximum number of unanswered messages per I/O node, with `pipeline`.
        message_bytes: Maximum size of a message in bytes. The listener's own limit also applies.
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
        """The maximum number of unanswered messages per I/O node."""
        return self.window if self.pipeline else 1


@dataclass(kw_only=True)
class TransferCounters:
    """Counters of the transfers of a file or a session.

    Attributes:
        messages: Messages sent.
        fragments: Contiguous pieces of memory in these messages.
        requests: Runs of subfiles in these messages.
        disk_calls: System calls for reads and writes, as reported by the listeners.
        bytes_written: Data bytes written.
        bytes_read: Data bytes read.
        rejected: Messages that a side rejected.
    """

    messages: int = 0
    fragments: int = 0
    requests: int = 0
    disk_calls: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    rejected: int = 0

    def add(self, other: "TransferCounters") -> None:
        """Add the counts of another counter."""
        counts = vars(self)
        for name, count in vars(other).items():
            if count:
                counts[name] += count
