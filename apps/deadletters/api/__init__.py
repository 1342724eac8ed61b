"""REST face of the dead letters and of the jobs that send them again."""
