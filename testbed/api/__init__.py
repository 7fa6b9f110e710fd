"""The functions and classes of ``import testbed``, for scripts, notebooks and other packages.

``calculations`` and ``ratings`` compute networks, routes, schedules and redundancy. ``runs``
carries out the plan of a workload, ``session`` keeps a network of real switches running, and
``stored`` reads stored runs. ``comparing``, ``tables`` and ``drawing`` show results. ``workloads``
lists the workloads, and ``emulated`` contains the program that runs inside the sandbox.
"""
