"""Compiled stepping of single games; numba is imported nowhere else."""
