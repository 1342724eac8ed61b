"""The product's settings for a broker whose database is away all the time; nothing else differs.

A connection that nobody makes is waited for each time it is asked for: two seconds as a user has
it, and the tests of brokers without a database would do little else.
"""

from typing import Any

from mqweb.settings import *  # noqa: F403
from mqweb.settings import DATABASES

_options: Any = DATABASES["default"]["OPTIONS"]
_options["pool"] = {**_options["pool"], "timeout": 0.1}
