"""What ``import testbed`` offers: the few functions by which scripts, notebooks and other packages use the testbed.

``values`` computes (networks, routes, schedules, block sizes), ``plans`` makes the plan of a workload from plain
arguments, ``runs`` carries one out, whatever its workload and fabric, ``session`` holds a network of real switches up,
``data_frames`` turns results into pandas' tables. ``workloads`` says of each workload how it is run and judged;
``emulated`` is the program inside the sandbox.
"""
