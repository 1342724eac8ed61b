"""What is done about runs: asking, cancelling, publishing. Knows rows; no Spark."""
