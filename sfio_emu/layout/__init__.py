"""The position of a file's bytes in subfiles and in memory, by arithmetic alone.

`striping` says which subfile contains a byte of the file. `requests` sorts and merges the blocks of
a call. `piece` has the parts of one subfile with their positions in the caller's memory; they are
copied by numpy or by the compiled `kernels`.
"""
