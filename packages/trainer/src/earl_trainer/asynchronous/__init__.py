"""Generation that does not wait for learning: how far it may be ahead, and who generates."""
