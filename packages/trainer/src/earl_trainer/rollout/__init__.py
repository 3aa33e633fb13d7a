"""Playing episodes with an engine."""
