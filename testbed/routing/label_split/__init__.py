"""Label splits: a split route in a form that switches can follow, 65,536 labels dealt out over paths.

Theory of operation. A route says which share r(l) of the flow each link carries; a switch cannot draw lots for a
packet. So the sender writes a label of 16 bits into each packet, takes all labels equally often, and every label has
one path. A link carries a share r(l) where its labels are a share r(l) of all. A switch matches labels by prefixes, so
the labels of a link should be few intervals: each costs up to 30 rules.

- ``rounding``: 65,536 r(l) to whole numbers that still conserve flow at every node; r(l) stays exact to 1/65536.
- ``interval_search``: every node deals the labels that reach it, ascending, to its outgoing links; the order of the
  links decides how often an interval is cut. A search over these orders, without a clock, keeps intervals whole.
- ``spraying``: the two in turn, and the path of each label read off, but for ranges of a label or two, which are left
  over by rounding and go with their neighbours (a link is then less than 2 labels off its load): a
  ``testbed.model.label_split.LabelSplit``.

When a link fails, exactly its labels are lost. That is why a sender can foretell the loss from the table, and why
labels in stratified order lose no more of any block than the link's share of it, rounded up.
"""
