"""The key index: from a message's keys to where it lies in the log, in RocketMQ's layout."""
