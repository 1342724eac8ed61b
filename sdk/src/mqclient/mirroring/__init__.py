"""Copies of topics between mqweb and RocketMQ 5, in both directions."""
