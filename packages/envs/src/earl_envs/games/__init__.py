"""Built-in games, one file of rules each; `earl_envs.make_game` loads them on demand."""
