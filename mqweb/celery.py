"""The Celery application: worker and beat of the clockwork. Composes; decides nothing.

`celery -A mqweb worker` and `celery -A mqweb beat` find it here.
"""

import atexit
import gc
import os
import socket
import sys
from typing import Any

import mqclient.celery  # noqa: F401  Registers the transport mqweb://.
from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
# Django's checks import every page and door, which worker and beat never serve; the broker makes
# them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from django.conf import settings
from django.db import close_old_connections

from apps.access import internal
from apps.clockwork.aligned import AlignedSchedule
from mqweb.schedule import SCHEDULE, TICK_KEPT_S, TICK_S_MAX


def _broker_url() -> str:
    """Return Celery's address, with the token of our own processes where it is our own broker."""
    url: str = settings.MQWEB.celery_broker_url
    if settings.MQWEB.auth == "off" or not settings.MQWEB.is_own_celery_broker:
        return url
    return url.replace("mqweb://", f"mqweb://:{internal.token_of(settings.SECRET_KEY)}@", 1)


app = Celery("mqweb")
# A connection to the database is handed from tick to tick: making one costs both sides more than
# what a tick does with it. `_ask_connection` looks after it, Celery does not.
_CONNECTION_KEPT_S = 300

app.conf.update(
    CELERY_DB_REUSE_MAX=sys.maxsize,
    broker_url=_broker_url(),
    broker_connection_retry_on_startup=True,
    task_default_queue="mqweb",
    # Nothing but JSON is read: a message can then say what to do, but not bring code.
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    timezone="UTC",
    enable_utc=True,
    worker_prefetch_multiplier=1,
    # The database counts as away after seconds, not for the length of a task.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    # Due times are in the database, so beat keeps no file of its own.
    beat_scheduler="apps.clockwork.steady:SteadyScheduler",
    beat_max_loop_interval=5,
    beat_schedule={
        name: {
            "task": name,
            "schedule": AlignedSchedule(min(every_s, TICK_S_MAX)),
            # So that they do not pile up for ever where no worker is. A day, because the worker's
            # clock decides, and it may be hours from ours; a tick that comes late does no harm.
            "options": {"expires": TICK_KEPT_S},
        }
        for name, every_s in SCHEDULE.items()
    },
)
app.autodiscover_tasks()


@signals.setup_logging.connect
def _keep_logging(**_unknown: Any) -> None:  # Celery's signals give values of any type.
    """Leave logging as Django's settings have made it; Celery asks by this signal."""


@signals.worker_init.connect
@signals.beat_init.connect
def _prepare(**_unknown: Any) -> None:
    from apps.bridge import remote

    # The pool's threads do not exist in a forked child; each process keeps a connection instead.
    settings.DATABASES["default"]["OPTIONS"].pop("pool", None)
    settings.DATABASES["default"]["CONN_MAX_AGE"] = _CONNECTION_KEPT_S
    remote.install()


@signals.worker_init.connect
def _share_memory(**_unknown: Any) -> None:
    """Leave what is imported out of collections, which would copy its pages into each child."""
    gc.collect()
    gc.freeze()


@signals.task_prerun.connect
def _ask_connection(sender: Any, **_unknown: Any) -> None:
    """Have a kept connection be asked whether it is still good, or too old, before it is used."""
    if not sender.request.is_eager:
        close_old_connections()


@signals.worker_ready.connect
def _say_worker_is_there(sender: Any, **_unknown: Any) -> None:
    from apps.clockwork.models import Part
    from apps.clockwork.presence import Presence

    presence = Presence(Part.Kind.WORKER, sender.hostname)
    presence.start()
    signals.worker_shutdown.connect(lambda **_unknown: presence.stop(), weak=False)


@signals.beat_init.connect
def _say_beat_is_there(**_unknown: Any) -> None:
    from apps.clockwork.models import Part
    from apps.clockwork.presence import Presence

    presence = Presence(Part.Kind.BEAT, f"beat@{socket.gethostname()}:{os.getpid()}")
    presence.start()
    # Beat has no signal for its end; it ends by SystemExit.
    atexit.register(presence.stop)
