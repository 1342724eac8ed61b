"""Settings of the beat that `runmq` starts: the product's, with the few applications it asks.

Beat knows names of tasks, and says in a row that it is there.
"""

from mqweb import settings

globals().update({name: value for name, value in vars(settings).items() if name.isupper()})

INSTALLED_APPS = ["django.contrib.sessions", "apps.clockwork"]
