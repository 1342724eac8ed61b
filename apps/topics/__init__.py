"""What exists: topics and their queues."""
