"""REST views of dead letters and jobs."""
