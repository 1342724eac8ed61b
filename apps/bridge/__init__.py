"""The only road from Django to the engine, and the processes of the product."""
