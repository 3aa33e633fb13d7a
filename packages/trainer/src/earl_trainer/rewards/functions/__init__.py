"""Reward functions that come with the package, each usable by its name alone."""
