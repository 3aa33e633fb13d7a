"""The command `earl`: a file for every verb."""

from earl_trainer.cli.command import main

__all__ = ["main"]
