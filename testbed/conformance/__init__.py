"""Suites by which the author of a plug-in judges it: one a group, the same that our own routings, schedulers and codes
pass.

    from testbed.conformance import check

    def test_my_routing():
        assert check("testbed.routings", "mine").passed

or ``testbed plugins check mine``. The judges are not the authors' words: flow conservation and the certified optimum
for routings, the independent checker for schedules, the decoder for codes, channel dependencies and delivery for static
routings.
"""

from testbed.conformance.suites import check, group_of, registries

__all__ = ["check", "group_of", "registries"]
