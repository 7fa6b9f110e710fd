"""Security of Dask clusters."""
