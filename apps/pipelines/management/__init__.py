"""Commands of the pipelines."""
