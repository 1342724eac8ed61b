"""Registers the app. Django's own notices have the label `messages`, so this one has another."""

from django.apps import AppConfig


class MessagesConfig(AppConfig):
    """Name and label."""

    name = "apps.messages"
    label = "messaging"
