"""The parts of a judgement that several workloads need; without I/O.

- ``deliveries`` compares the log of a sender with that of a receiver.
- ``quiet_times`` tells which packets no fault can have affected.
- ``counts`` finds impossible counts.
- ``validity`` gives reasons why a run is invalid.
- ``bins`` counts packets in intervals of time.
- ``documents`` gives the keys that the documents of runs have in common.

Each workload has a judge of its own, because each measures something else.
"""
