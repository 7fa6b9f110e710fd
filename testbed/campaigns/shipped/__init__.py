"""Descriptions of the campaigns that are part of the testbed, one TOML file each."""
