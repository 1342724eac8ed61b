"""Dead letters as operators see them: rows, resending as a job, discarding, export."""
