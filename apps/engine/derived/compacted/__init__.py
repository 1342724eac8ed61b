"""The newest message of each key, in files beside the log."""
