"""In which order names are listed. Knows names alone."""

# As `mqclient.celery.names` makes them; the default of mqweb's own worker among them.
_OF_CELERY = "celery-"


def listed(name: str) -> tuple[bool, str]:
    """Return what to sort a name by: what Celery made for itself stands behind all others."""
    return name.startswith(_OF_CELERY), name
