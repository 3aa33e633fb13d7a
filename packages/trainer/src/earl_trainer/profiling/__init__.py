"""Measuring how fast an engine generates at each degree and load."""
