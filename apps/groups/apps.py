"""Application configuration of the groups."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class GroupsConfig(AppConfig):
    """Register the application under its short label, and its rows with the catalog."""

    name = "apps.groups"
    label = "groups"
    verbose_name = gettext_lazy("Groups")

    def ready(self) -> None:
        """Have the catalog's snapshot take its groups from our rows."""
        # Rows can be imported once Django has its applications.
        from apps.groups.catalog import GroupRows
        from apps.topics import groupsource

        groupsource.register(GroupRows())
