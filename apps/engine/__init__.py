"""The queue engine: pure Python and NumPy. Knows no Django, Celery, Channels, HTTP or Spark."""
