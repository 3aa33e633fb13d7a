"""What a run shows and writes."""
