"""A network cut over machines: balanced by what each can carry, few and thin cables between them.

``partition`` cuts; ``parse_placement`` reads what somebody decided by hand.
"""

from testbed.machines.partition.partition import parse_placement, partition

__all__ = ["parse_placement", "partition"]
