"""The table of rights: what each address and method of Django's side needs. The only such place.

The data plane's rows are in `apps.doors.http.rights`. A route that is missing here is closed while
access is on, and a test fails.
"""

from apps.access.policy import Action
from apps.access.table import (
    EVERYBODY,
    SIGNED_IN,
    Row,
    Table,
    on_cluster,
    on_group,
    on_group_of_lock,
    on_topic,
)

_SEE = on_cluster(Action.GET)
_DECIDE = on_cluster(Action.DECIDE)
_RUN = on_cluster(Action.RUN)
_ADMINISTER = on_cluster(Action.ADMINISTER)
_SEE_GROUP = on_group(Action.GET)

_API: dict[str, dict[str, Row]] = {
    "clockwork": {"GET": _SEE},
    # The list shows what its caller may list.
    "topics": {"GET": SIGNED_IN},
    "topics/<str:topic>": {
        "GET": on_topic(Action.GET),
        "PUT": on_topic(Action.CREATE, Action.UPDATE),
        "DELETE": on_topic(Action.DELETE),
    },
    "groups": {"GET": SIGNED_IN},
    "groups/<str:group>": {
        "GET": _SEE_GROUP,
        "PUT": on_group(Action.CREATE, Action.UPDATE),
    },
    "groups/<str:group>/rebalances": {"GET": _SEE_GROUP},
    "groups/<str:group>/offsets": {"GET": _SEE_GROUP},
    "groups/<str:group>/lag": {"GET": _SEE_GROUP},
    "groups/<str:group>/blocked": {"GET": _SEE_GROUP},
    "groups/<str:group>/retries": {"GET": _SEE_GROUP},
    "groups/<str:group>/dead-letters": {"GET": _SEE_GROUP},
    "groups/<str:group>/dead-letters/<str:letter>": {"GET": on_group(Action.PEEK)},
    "groups/<str:group>/dead-letters:export": {"GET": on_group(Action.PEEK)},
    "groups/<str:group>/dead-letters:resend": {"POST": on_group(Action.REDRIVE)},
    "groups/<str:group>/dead-letters:discard": {"POST": on_group(Action.REDRIVE)},
    "locks": {"GET": SIGNED_IN},
    "locks/<str:lock>/transitions": {"GET": on_group_of_lock(Action.GET)},
    "locks/<str:lock>:release": {"POST": on_group_of_lock(Action.RELEASE)},
    "delayed": {"GET": _SEE},
    "delayed/levels": {"GET": _SEE},
    "delayed/status": {"GET": _SEE},
    "transactions": {"GET": _SEE},
    "transactions/status": {"GET": _SEE},
    "transactions/given-up": {"GET": _SEE},
    "transactions/given-up/<str:offset>": {"GET": on_cluster(Action.PEEK)},
    "transactions/given-up/<str:offset>:send": {"POST": _DECIDE},
    "transactions/<str:transaction_id>:check-now": {"POST": _DECIDE},
    "jobs": {"GET": _SEE},
    "jobs/<str:job>": {"GET": _SEE},
    "jobs/<str:job>:cancel": {"POST": on_cluster(Action.REDRIVE)},
    "series": {"GET": _SEE},
    "series/<str:name>": {"GET": _SEE},
    "pipelines/jobs": {"GET": _SEE},
    "pipelines/jobs/<str:job>": {"GET": _SEE},
    "pipelines/runs": {"GET": _SEE, "POST": _RUN},
    "pipelines/runs/<str:run>": {"GET": _SEE},
    "pipelines/runs/<str:run>:cancel": {"POST": _RUN},
    "pipelines/runs/<str:run>:rerun": {"POST": _RUN},
    # Files of results may hold keys and bodies of messages.
    "pipelines/runs/<str:run>:download": {"GET": on_cluster(Action.PEEK)},
    "pipelines/files/<str:file>": {"GET": on_cluster(Action.PEEK)},
    "pipelines/results": {"GET": _SEE},
    "pipelines/results/<str:table>": {"GET": _SEE},
    "pipelines/streams": {"GET": _SEE},
    "pipelines/streams/<str:stream>": {"GET": _SEE},
    "pipelines/streams/<str:stream>/batches": {"GET": _SEE},
    "accounts": {"GET": _ADMINISTER, "POST": _ADMINISTER},
    "accounts/<str:account>": {
        "GET": _ADMINISTER,
        "PUT": _ADMINISTER,
        "DELETE": _ADMINISTER,
    },
    "grants": {"GET": _ADMINISTER, "POST": _ADMINISTER},
    "grants/<str:grant>": {"GET": _ADMINISTER, "DELETE": _ADMINISTER},
    "tokens": {"GET": _ADMINISTER, "POST": _ADMINISTER},
    "tokens/<str:token>": {"GET": _ADMINISTER, "DELETE": _ADMINISTER},
}

_PAGES: dict[str, dict[str, Row]] = {
    "": {"GET": _SEE},
    "locks": {"GET": _SEE},
    "delays": {"GET": _SEE},
    "delays/cancel": {"POST": _DECIDE},
    "delays/deliver-now": {"POST": _DECIDE},
    "transactions": {"GET": _SEE},
    "transactions/given-up": {"GET": _SEE},
    "transactions/given-up/<int:offset>": {"GET": on_cluster(Action.PEEK)},
    "transactions/given-up/<int:offset>/send": {"POST": _DECIDE},
    "transactions/check": {"POST": _DECIDE},
    "transactions/<int:half_offset>": {"GET": _SEE},
    "transactions/<int:half_offset>/decide": {"POST": _DECIDE},
    "dead-letters": {"GET": _SEE},
    "dead-letters/<str:name>/": {"GET": on_group(Action.GET, part="name")},
    "dead-letters/<str:name>/resend": {"GET": on_group(Action.GET, part="name")},
    "dead-letters/<str:name>/send": {"POST": on_group(Action.REDRIVE, part="name")},
    "dead-letters/<str:name>/discard": {"POST": on_group(Action.REDRIVE, part="name")},
    "dead-letters/<str:name>/<int:number>": {"GET": on_group(Action.PEEK, part="name")},
    "jobs/<int:number>": {"GET": _SEE},
    "jobs/<int:number>/cancel": {"POST": on_cluster(Action.REDRIVE)},
    "clockwork": {"GET": _SEE},
    "pipelines": {"GET": SIGNED_IN},
    "pipelines/": {"GET": _SEE},
    "pipelines/runs/": {"GET": _SEE},
    "pipelines/runs/ask": {"POST": _RUN},
    "pipelines/runs/<int:number>/": {"GET": _SEE},
    "pipelines/runs/<int:number>/cancel": {"POST": _RUN},
    "pipelines/runs/<int:number>/rerun": {"POST": _RUN},
    "pipelines/results/<str:job>/": {"GET": _SEE},
    "topics/<path:name>/": {"GET": on_topic(Action.GET, part="name")},
    "groups/<path:name>/": {"GET": on_group(Action.GET, part="name")},
    "problems/": {"GET": EVERYBODY},
    "problems/<slug:code>": {"GET": EVERYBODY},
    "api/schema/": {"GET": SIGNED_IN},
    "api/docs/": {"GET": SIGNED_IN},
    "sign-in": {"GET": EVERYBODY, "POST": EVERYBODY},
    "sign-out": {"POST": EVERYBODY},
    "access": {"GET": _ADMINISTER},
    "access/accounts": {"POST": _ADMINISTER},
    "access/accounts/<path:name>/": {"GET": _ADMINISTER},
    "access/accounts/<path:name>/change": {"POST": _ADMINISTER},
    "access/accounts/<path:name>/password": {"POST": _ADMINISTER},
    "access/accounts/<path:name>/delete": {"POST": _ADMINISTER},
    "access/accounts/<path:name>/grants": {"POST": _ADMINISTER},
    "access/accounts/<path:name>/tokens": {"POST": _ADMINISTER},
    "access/grants/<int:number>/remove": {"POST": _ADMINISTER},
    "access/tokens/<int:number>/revoke": {"POST": _ADMINISTER},
}

TABLE = Table(
    routes={**{f"api/v1/{route}": methods for route, methods in _API.items()}, **_PAGES},
    areas=[("admin/", _ADMINISTER)],
)
