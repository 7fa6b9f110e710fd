"""A campaign on Dask workers."""
