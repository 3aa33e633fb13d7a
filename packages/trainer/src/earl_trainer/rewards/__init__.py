"""Rewards that functions of the user's own compute, in processes that can be killed."""
