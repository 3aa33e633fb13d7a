"""Playing in words: prompts, replies, and what becomes of wrong ones."""
