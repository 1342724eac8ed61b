"""System checks: what would make the product lose data or refuse to start."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register

from apps.bridge.conf import engine_config


@register
def data_directory_is_usable(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Report a data directory that cannot be made or written."""
    del app_configs
    data: Path = settings.MQWEB.data
    nearest = next(path for path in (data, *data.parents) if path.exists())
    if nearest == data and not data.is_dir():
        return [Error(f"{data} is not a directory", id="mqweb.E001")]
    if not os.access(nearest, os.W_OK | os.X_OK):
        return [Error(f"{nearest} cannot be written", hint="Set MQWEB_DATA.", id="mqweb.E002")]
    return []


@register
def engine_settings_agree(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Report settings that the engine refuses."""
    del app_configs
    try:
        engine_config()
    except ValueError as error:
        return [Error(str(error), id="mqweb.E003")]
    return []


@register
def assertions_are_on(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Report `python -O`: the engine stops on broken assumptions by assertions."""
    del app_configs
    if not __debug__:
        return [Error("mqweb must not run with python -O", id="mqweb.E004")]
    return []


@register
def database_is_postgresql(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Report another database: names, constraints and upserts are PostgreSQL's."""
    del app_configs
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
        return [Error("mqweb needs PostgreSQL", id="mqweb.E005")]
    return []


@register
def failpoints_are_off(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Warn of provoked faults: they are for tests."""
    del app_configs
    if settings.MQWEB.failpoints:
        return [checks.Warning("MQWEB_FAILPOINTS is set: faults will be provoked", id="mqweb.W001")]
    return []
