"""A shop whose work is done by Celery: orders are taken, charged and confirmed by mail."""

from shop.application import app

__all__ = ["app"]
