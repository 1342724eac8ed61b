"""The push consumer: messages are brought to a listener, by threads or on an event loop."""
