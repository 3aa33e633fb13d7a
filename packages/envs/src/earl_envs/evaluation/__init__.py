"""Who plays better, and how sure that is."""
