"""REST of runs, results, files and streams."""
