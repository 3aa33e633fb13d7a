"""Other libraries' batches, in and out."""
