"""The model update."""
