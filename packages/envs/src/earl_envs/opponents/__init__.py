"""Players to train and to evaluate against."""
