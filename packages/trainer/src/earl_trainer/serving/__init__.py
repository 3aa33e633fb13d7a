"""Generation on servers of replies."""
