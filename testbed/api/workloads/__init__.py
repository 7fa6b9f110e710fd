"""Our workloads as ``testbed.run`` knows them, one module each; ``known`` finds the workload of a plan, plug-ins' too."""
