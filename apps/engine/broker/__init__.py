"""What messages mean: topics, queues, groups, leases. Knows no file names."""
