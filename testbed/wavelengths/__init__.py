"""Wavelengths of an optical cloud: assignment of lightpaths, runs on switches, and optical bursts.

Theory of operation. A lightpath occupies one wavelength of every fibre on its path for as long as
it is lit. A fibre has W wavelengths. Lightpaths are lit in rounds. To find the fewest rounds is a
problem of liquid scheduling (Gabrielyan 2007, 3.2.2): lightpaths are transfers, fibres are links,
and a colour (a round and one of its W wavelengths) is a time frame. The smallest possible number of
rounds is the load of the busiest fibre over W, rounded up.

The problem depends on the cross-connects. A wavelength-selective one (WSXC) keeps a lightpath on
one wavelength. Paths that share a fibre then have different colours, and W frames of a schedule
make a round. A wavelength-interchanging one (WIXC) may change the wavelength at every switch. Then
only the number of paths over each fibre counts, at most W in a round, and any such set of paths can
be coloured afterwards, fibre by fibre, with few changes.

``assignment`` finds rounds by packing, with ejection and then with CP-SAT, which may also raise the
bound. ``greedy`` has the methods used in practice, which assign one path after another. ``checker``
imports neither of them. A plan is carried out round by round (``rules``, ``probes``, ``emulated``
or ``simulated``, ``judgement``). Wavelengths are VLAN ids. Light that no rule expects is dropped
and counted. ``burst_switching`` simulates optical burst switching, in which the buffers of edge
routers are emptied by repeated liquid schedules or by first fit.
"""
