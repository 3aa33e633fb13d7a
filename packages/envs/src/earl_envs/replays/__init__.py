"""Episodes kept as lines of JSON, and shown again as text, pictures and GIFs."""
