"""Learning from data: demonstrations, and answers of which one is better than the other."""
