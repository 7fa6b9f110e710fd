"""How clusters of Dask are secured."""
