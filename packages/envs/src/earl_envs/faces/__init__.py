"""Games as the environments of other frameworks."""
