"""Conformance suites for plug-ins, one for each group.

The built-in routings, schedulers and codes pass the same suites.

    from testbed.conformance import check

    def test_my_routing():
        assert check("testbed.routings", "mine").passed

The command is ``testbed plugins check mine``. The suites do not rely on what a plug-in claims. They
check flow conservation and compare routings with the certified optimum. They use the independent
checker for schedules and the decoder for codes, and check static routings by channel dependencies
and delivery.
"""

from testbed.conformance.suites import check, group_of, registries

__all__ = ["check", "group_of", "registries"]
