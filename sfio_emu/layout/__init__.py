"""Where the bytes of a file lie, in arithmetic alone: striping, the requests of a call, pieces of subfiles and of
memory.

`striping` says which subfile has a byte of the file; `requests` sorts and merges the blocks of a call; `pieces` are the
parts of one subfile with their places in the caller's memory, copied by `kernels` (compiled) or numpy.
"""
