"""What is read of runs, results and files. Knows rows; changes none, and no Spark."""
