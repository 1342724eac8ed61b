"""Chinese, as English: digits sort, and fit a column."""
