"""Striped files over a network: compute processes write and read one file whose stripe units lie on several I/O nodes.

Theory of operation
------------------- **Placement** (``placement``) says which hosts compute and which keep the subfiles. **Access**
(``access``) says which blocks of the file each compute process reads or writes: disjoint, together the whole file.
Stripe units are dealt to the subfiles in turn (Gabrielyan 2007, section 2.4), which gives the bytes between every
compute and every I/O node: the *transfers* of the plan (``plan``, ``planning``).

**The library** (``sfio_emu``) gathers all fragments of a call into one message an I/O node, and the listeners in the
I/O nodes (``emulated.listeners``) write or read their subfiles. Compute processes are threads (``emulated.clients``)
with sockets in their own hosts.

**Order.** Without schedule and circuits all transfers go at once. Else each waits to be *admitted*
(``emulated.admission``): in the time frames of a liquid schedule, over circuits, or both, as the coordinator of bulk
transfers decides (``testbed.bulk``). A thread holds its links from admission until the listener has answered its last
byte.

**Judgement** (``judgement``). After each operation the subfiles are held against the layout worked out on its own
(``oracle``), and the throughput against ``prediction``, where the machine has kept up.

``testbed run`` uses the same hosts and listeners for a parallel program of the user's, one process a compute node
(``emulated.program_run``, with MPI ``emulated.mpi_launcher``); such a program has no plan and is not judged.
"""
