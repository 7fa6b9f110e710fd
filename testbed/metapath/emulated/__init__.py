"""A metapath plan on real switches."""
