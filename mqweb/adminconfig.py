"""Which site `admin.site` is: Django takes its name from the configuration of its application."""

from django.contrib.admin.apps import SimpleAdminConfig


class AdminConfig(SimpleAdminConfig):
    """The admin, without looking for what it shows: `urls.py` does, as only the broker shows it."""

    default_site = "apps.access.adminsite.DecidedSite"
