"""What others ask the pipelines' rows. Reads only."""
