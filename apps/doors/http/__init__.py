"""The fast HTTP door: the data plane of the API as a raw ASGI application, without Django."""
