"""Matches and their intervals."""
