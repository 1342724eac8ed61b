"""What `celery -A tests.celery.worker_app worker` loads."""

from tests.celery.application import from_environment

app = from_environment()
