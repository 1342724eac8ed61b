"""Fixtures of the tests of access: a fake engine, where Django's side asks for one."""

from tests.web.conftest import engine

__all__ = ["engine"]
