"""From episodes to the samples that the learner gets."""
