"""The extension module in C; everything else is in pyproject.toml.

It is optional. Without a compiler or Python's headers the package does the same in Python, slower.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "fec.protocol._packets",
            ["fec/protocol/_packets.c", "fec/protocol/_receiver.c"],
            # Multiplications and additions are rounded one by one, as Python rounds them.
            extra_compile_args=["-O2", "-ffp-contract=off"],
            optional=True,
        )
    ]
)
