"""The lock of an evaluation, for whoever changes what it looks at. Knows one row."""

from apps.alerts.models import Watch


def locked_watch() -> Watch:
    """Return the row of the watch, locked until the transaction ends.

    An evaluation waits for it, so that neither overwrites what the other wrote.
    """
    watch, _ = Watch.objects.select_for_update().get_or_create(pk=1)
    return watch
