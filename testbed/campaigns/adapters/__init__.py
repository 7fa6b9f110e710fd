"""Runs campaigns on Dask workers."""
