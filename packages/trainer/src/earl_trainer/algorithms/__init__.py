"""Pure functions: log-probs, advantages, losses, and how they are summed."""
