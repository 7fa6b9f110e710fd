"""Wavelengths of an optical cloud: lightpaths into rounds by liquid scheduling, checked, carried by switches; bursts.

Theory of operation. A lightpath holds one wavelength of every fibre on its way for as long as it is lit; a fibre has W
wavelengths. That is a liquid scheduling problem (Gabrielyan 2007, 3.2.2): lightpaths are transfers, fibres are links,
and a colour (a round and one of the W wavelengths) is what a time frame is there. So the fewest rounds are the load of
the busiest fibre over W, rounded up.

What a cross-connect can do decides which problem it is. A wavelength-selective one (WSXC) keeps a lightpath on one
wavelength all the way: paths that share a fibre have different colours, so W frames of a schedule make a round. A
wavelength-interchanging one (WIXC) may change it at every switch: only the number of paths over a fibre counts, W a
round, and any such set of paths can be coloured afterwards, fibre by fibre, with few changes.

``assignment`` finds rounds by packing (ejection, then CP-SAT, which may also raise the bound); ``greedy`` is what is
done in practice, one path after another; ``checker`` imports neither. A plan is carried out round by round (``rules``,
``probes``, ``emulated`` or ``simulated``, ``judgement``): wavelengths are VLAN ids, and light that no rule expects is
dropped and counted. ``burst_*``: optical burst switching in virtual time, where the buffers of edge routers are emptied
by repeated liquid schedules or by first fit.
"""
