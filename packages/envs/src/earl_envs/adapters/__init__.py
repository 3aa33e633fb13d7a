"""Games whose rules another library holds."""
