"""Application configuration of the groups."""

from django.apps import AppConfig


class GroupsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.groups"
    label = "groups"
