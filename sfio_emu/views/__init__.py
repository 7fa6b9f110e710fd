"""MPI-I/O views: datatypes flattened to byte ranges, files seen through them."""
