"""The Celery application: which broker, where results go, and what runs at night."""

import os

import mqclient.celery  # noqa: F401  # Makes mqweb:// known to Celery.
from celery import Celery
from celery.schedules import crontab

app = Celery(
    "shop",
    broker=os.environ.get("BROKER_URL", "mqweb://127.0.0.1:8000//"),
    backend=os.environ.get("RESULT_BACKEND", "db+sqlite:///results.db"),
    include=["shop.tasks"],
)
app.conf.update(
    # A task is acknowledged when it has ended, so a killed worker's task is run again.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    # Mails wait in a lane of their own: a thousand of them do not hold up an order.
    task_routes={"shop.tasks.send_mail": {"queue": "mail"}},
    broker_connection_retry_on_startup=True,
    beat_schedule={
        "nightly-report": {"task": "shop.tasks.report", "schedule": crontab(hour=3, minute=0)},
    },
)
