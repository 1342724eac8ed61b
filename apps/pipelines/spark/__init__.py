"""What runs inside Spark's driver: sessions, inputs, jobs, staging. The rest does without it."""
