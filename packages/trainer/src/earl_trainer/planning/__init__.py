"""Forecasts of asynchronous training, by simulation; needs no deep-learning library."""
