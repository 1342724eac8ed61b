"""What the console says of the pipelines: rows to plots and tables. Draws and formats only."""
