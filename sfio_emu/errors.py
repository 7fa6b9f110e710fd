"""What can go wrong in striped files: mistakes of the caller apart from faults of peers and networks."""


class SfioError(Exception):
    """Root of every error of this package."""


class UsageError(SfioError, ValueError):
    """A mistake of the caller: one line saying what, where and how to mend it."""


class PeerError(SfioError):
    """A peer or the network between failed."""
