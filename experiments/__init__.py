"""One module a claim of the papers: parameters to results to figures, each ending in a verdict."""
