"""Models split by tensor parallelism over rank processes, at a degree that changes."""
