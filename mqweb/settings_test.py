"""Settings of the test run: the product's own, with a database the run has made for itself."""

import atexit
import os
import shutil
import tempfile

# One temporary directory for a run, and one for each of its workers, whose environment is that of
# the run; `tests/conftest.py` starts a server in it.
if "MQWEB_DATA" not in os.environ or (
    os.environ.get("MQWEB_TESTS_WORKER", "") != os.environ.get("PYTEST_XDIST_WORKER", "")
):
    os.environ["MQWEB_TESTS_WORKER"] = os.environ.get("PYTEST_XDIST_WORKER", "")
    os.environ["MQWEB_DATA"] = tempfile.mkdtemp(prefix="mqweb-tests-")
    atexit.register(shutil.rmtree, os.environ["MQWEB_DATA"], ignore_errors=True)
# What all workers of a run share; the process that starts them is the first to come here.
os.environ.setdefault("MQWEB_TESTS_RUN", os.environ["MQWEB_DATA"])
os.environ.setdefault("MQWEB_SECRET_KEY", "only-for-tests-" * 4)
# Many products run at once in a test run.
os.environ.setdefault("MQWEB_GRPC_PORT", "0")
# How full the disk of whoever runs the tests is says nothing about the product.
os.environ.setdefault("MQWEB_DISK_PERCENT_MAX", "100")
os.environ.setdefault("MQWEB_RETENTION_FORCE_PERCENT", "100")

from apps.bridge import embedded
from mqweb import settings

globals().update({name: value for name, value in vars(settings).items() if name.isupper()})

DATABASES = {
    "default": {
        **settings.DATABASES["default"],
        # A pool would hold connections while the test database is made and dropped.
        "OPTIONS": {"connect_timeout": 2},
    }
}
if settings.MQWEB.database_url is None:
    # Only the superuser may create the test database.
    DATABASES["default"]["USER"] = embedded.SUPERUSER
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
