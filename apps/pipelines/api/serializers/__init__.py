"""Shapes of the pipelines on the wire. Counts are numbers; places in queues and logs are texts."""
