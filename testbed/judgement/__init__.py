"""The parts of a judgement that several workloads need; pure.

- ``deliveries`` compares the log of a sender with that of a receiver.
- ``quiet_times`` says which packets no fault can have affected.
- ``counts`` finds counts that cannot be right.
- ``validity`` gives reasons why a run says nothing about the network.
- ``bins`` counts packets in intervals of time.
- ``documents`` gives the keys that the documents of runs have in common.

Each workload has a judge of its own, because each measures something else.
"""
