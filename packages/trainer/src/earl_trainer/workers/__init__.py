"""The processes of one run: who plays, who learns, and what they tell one another."""
