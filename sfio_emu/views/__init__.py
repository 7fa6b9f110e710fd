"""MPI-I/O on striped files (Gabrielyan 2007, section 2.9; MPI 4.0, chapter 14): datatypes, views, files.

Theory of operation. A derived datatype (`datatypes`) is flattened once into runs of bytes. A *view* repeats a datatype
over the file and so makes of it one stream of data, with gaps left out; a *memory layout* does the same for the
caller's buffer. An access means so many bytes of both streams. `file_views` cuts the runs of either at the ends of the
other's, which gives blocks that are contiguous in file and memory, and `mpi_file` moves them all by one multi-block
request of the striped file.
"""
