"""Striped files: compute processes write and read one file that is distributed over I/O nodes.

**Placement** (``placement``) decides which hosts compute and which store the subfiles.

**Access** (``access``) decides which blocks of the file each compute process reads or writes. The
blocks are disjoint and cover the file. The stripe units of the file are distributed to the
subfiles in turn (Gabrielyan 2007, section 2.4). This gives the bytes between every compute and
every I/O node, which are the *transfers* of the plan (``plan``, ``planning``).

**The library** (``sfio_emu``) gathers all fragments of a call into one message per I/O node. The
listeners on the I/O nodes write or read their subfiles. Compute processes are threads
(``emulated.clients``) with sockets in their own hosts (``emulated.machine_ends``).

**Order.** Without a schedule and without circuits, all transfers begin at the same time. Otherwise
each waits until it is *admitted* (``emulated.admission``): to its time frame in a liquid schedule,
to its circuit, or to both. The coordinator of bulk transfers (``testbed.bulk``) decides when. A
thread holds its links until the listener has answered its last byte.

**Judgement** (``judgement``). After each operation the subfiles are compared with a layout that is
computed independently (``oracle``). If the machine kept up, the throughput is compared with its
prediction (``prediction``).

``testbed run`` uses the same hosts and listeners for a parallel program of the user, with one
process per compute node (``emulated.program_run``, with MPI ``emulated.mpi_launcher``). Such a
program has no plan and is not judged.
"""
