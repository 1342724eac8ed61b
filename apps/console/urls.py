"""Addresses of the pages. A name may hold any character, also a slash that was escaped."""

from django.urls import path

from apps.console.pages import clockwork, locks, objects, overview

app_name = "console"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("locks", locks.locks, name="locks"),
    path("clockwork", clockwork.clockwork, name="clockwork"),
    path("topics/<path:name>/", objects.topic, name="topic"),
    path("groups/<path:name>/", objects.group, name="group"),
]
