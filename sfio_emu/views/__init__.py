"""MPI-I/O on striped files (Gabrielyan 2007, section 2.9; MPI 4.0, chapter 14).

A derived datatype (`datatypes`) is flattened once into runs of bytes. A *view* repeats a datatype
over the file. Its bytes are one stream of data; the gaps are left out. A *memory layout* does the
same for the caller's buffer. An access transfers the same number of bytes of both streams.
`file_views` cuts the runs of each stream at the ends of the other's runs. The results are blocks
that are contiguous both in the file and in memory. `mpi_file` transfers all of them by one
multi-block request of the striped file.
"""
