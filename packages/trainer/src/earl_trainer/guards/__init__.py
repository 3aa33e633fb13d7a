"""Guards: what watches a run's figures, and what becomes of a run that goes wrong."""
