"""The console as Django knows it. Nothing is opened at import."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Pages, sockets and the demonstration."""

    name = "apps.console"
    label = "console"
