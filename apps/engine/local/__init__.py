"""The engine in one process: the broker of `apps.engine.broker.core`, and the waiting around it."""

from apps.engine.local.engine import LocalEngine

__all__ = ["LocalEngine"]
