"""Label splits: split routes in a form that switches can follow.

A route says which share r(l) of the flow each link carries, but a switch cannot choose a link at
random for each packet. Therefore the sender writes a label of 16 bits into each packet and uses all
65,536 labels equally often, and every label has one path. A link carries the share r(l) if a share
r(l) of all labels have a path over it. A switch matches labels by prefixes, and each interval of
labels costs up to 30 rules, so the labels of a link should be few intervals.

- ``rounding`` rounds 65,536 r(l) to integers that still conserve flow at every node. The shares
  remain exact to 1/65536.
- ``interval_search`` lets every node distribute the labels that reach it, in ascending order, over
  its outgoing links. The order of the links decides how often an interval is divided. A search over
  these orders, without a clock, keeps intervals whole.
- ``spraying`` applies both and reads off the path of each label. Ranges of one or two labels, which
  are left over by rounding, are merged with their neighbours; a link is then less than 2 labels off
  its load. The result is a ``testbed.model.label_split.LabelSplit``.

When a link fails, exactly its labels are lost. Therefore a sender can predict the loss from the
table. With labels in stratified order, no block loses more than the link's share of it, rounded up.
"""
