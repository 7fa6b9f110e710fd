"""Studies, each of which tests a claim of the papers: from parameters to results to a verdict."""
