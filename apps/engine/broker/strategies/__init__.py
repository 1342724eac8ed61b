"""Share out queues among clients, as RocketMQ's six strategies do. Pure: names in, lists out."""
