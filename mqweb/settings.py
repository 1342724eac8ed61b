"""Django settings, derived from the environment. Reads no variable itself: see `env.py`."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from apps.alerts.judging import State as AlertState
from apps.alerts.kinds import Kind as AlertKind
from apps.alerts.kinds import Scope as AlertScope
from apps.alerts.kinds import Severity as AlertSeverity
from apps.bridge import embedded, secretfiles
from apps.core import languages
from mqweb import env
from mqweb.schedule import SCHEDULE

BASE_DIR = Path(__file__).resolve().parent.parent

try:
    MQWEB = env.read(os.environ)
except env.Refused as refused:
    raise ImproperlyConfigured(str(refused)) from refused

DEBUG = False
SECRET_KEY = MQWEB.secret_key or secretfiles.kept_secret(MQWEB.data / "secret-key")
# Written out without wildcards: a foreign page must not reach us under a name of its own.
_listening = () if env.is_loopback(MQWEB.host) else (MQWEB.host,)
ALLOWED_HOSTS = [*env.LOOPBACK_NAMES, *_listening, *MQWEB.allowed_hosts]

INSTALLED_APPS = [
    "mqweb.adminconfig.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "apps.bridge",
    "apps.core",
    "apps.access",
    "apps.clockwork",
    "apps.audit",
    "apps.topics",
    "apps.delays",
    "apps.transactions",
    "apps.groups",
    "apps.deadletters",
    "apps.metrics",
    "apps.alerts",
    "apps.pipelines",
    "apps.messages",
    "apps.console",
]

MIDDLEWARE = [
    "apps.core.middleware.RequestIdMiddleware",
    "apps.core.middleware.OriginMiddleware",
    "apps.core.middleware.SecurityPolicyMiddleware",
    "apps.core.middleware.UnreadableMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "apps.core.staticfiles.StaticFilesMiddleware",
    "apps.core.middleware.ViewerMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "apps.access.middleware.AccessMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "apps.core.middleware.DatabaseOutageMiddleware",
]

ROOT_URLCONF = "mqweb.urls"
ASGI_APPLICATION = "mqweb.asgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.console.preferences.shown",
                "apps.access.context.signed_in",
            ],
        },
    },
]

# A connection is handed from request to request; asked for at most this long, and checked first,
# so that an outage is told at once and its end is noticed by the next request.
_POOL = {"min_size": 0, "max_size": 10, "timeout": 2.0, "max_idle": 60.0, "reconnect_timeout": 5.0}


def _database() -> dict[str, Any]:
    if MQWEB.database_url is not None:
        database: dict[str, Any] = dict(dj_database_url.parse(MQWEB.database_url))
    else:
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": str(embedded.Cluster(MQWEB.data).socket_directory),
            "NAME": embedded.DATABASE,
            "USER": embedded.ROLE,
        }
    database["CONN_HEALTH_CHECKS"] = True
    database["OPTIONS"] = {"connect_timeout": 2, **database.get("OPTIONS", {}), "pool": _POOL}
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"


def _channel_layer() -> dict[str, Any]:
    if MQWEB.redis_url is None:
        return {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    if importlib.util.find_spec("channels_redis") is None:
        raise ImproperlyConfigured("REDIS_URL is set and needs the package channels_redis")
    return {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        # Members renew themselves every few seconds; one that was killed is soon forgotten.
        "CONFIG": {"hosts": [MQWEB.redis_url], "group_expiry": 60},
    }


CHANNEL_LAYERS = {"default": _channel_layer()}

# How often each task of the clockwork runs, in seconds; what is Celery's is in `celery.py`.
CLOCKWORK_SCHEDULE = SCHEDULE

# The account checks the password, and the one decision says what it may in the admin.
AUTHENTICATION_BACKENDS = ["apps.access.backends.DecidedBackend"]
LOGIN_URL = "/sign-in"
# (method, route) -> right: of everything Django serves.
ACCESS_TABLE = "mqweb.rights.TABLE"
# Mails tell of alerts and of nothing else.
EMAIL_HOST = MQWEB.telling.mail_host
EMAIL_PORT = MQWEB.telling.mail_port
EMAIL_HOST_USER = MQWEB.telling.mail_user
EMAIL_HOST_PASSWORD = MQWEB.telling.mail_password
EMAIL_USE_TLS = MQWEB.telling.mail_security == "starttls"
EMAIL_USE_SSL = MQWEB.telling.mail_security == "tls"
EMAIL_TIMEOUT = 5
DEFAULT_FROM_EMAIL = SERVER_EMAIL = MQWEB.telling.mail_from

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# What holds where nobody asked: in tasks, commands and the API.
LANGUAGE_CODE = languages.DEFAULT.value
LANGUAGES = [(language.value, language.own_name) for language in languages.Language]
LOCALE_PATHS = [BASE_DIR / "mqweb" / "locale"]
# Moments of the admin as those of the console.
FORMAT_MODULE_PATH = "mqweb.formats"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Files are served from where the applications keep them: there is nothing to collect.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
WHITENOISE_ALLOW_ALL_ORIGINS = False
WHITENOISE_MAX_AGE = 60

# Largest body of a control-plane request or a form; the data plane has limits of its own.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_COOKIE_NAME = "mqweb_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = MQWEB.session.age_ms_max // 1_000
CSRF_COOKIE_NAME = "mqweb_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"

# There is no HTTPS address here to redirect to: that is the business of who is in front.
SILENCED_SYSTEM_CHECKS = ["security.W008"]
if MQWEB.https:
    # A proxy that is believed may say that somebody came without TLS; nobody else can.
    SECURE_SSL_REDIRECT = True
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-mqweb_session", "__Host-mqweb_csrf"
    SECURE_HSTS_SECONDS = 365 * 86_400
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True
else:
    SILENCED_SYSTEM_CHECKS += [
        # HSTS would make browsers refuse http://localhost for every other program as well.
        "security.W004",
        # A Secure cookie would not be sent over plain HTTP, and nobody could sign in.
        "security.W012",
        "security.W016",
    ]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["apps.access.api.permissions.AsDecided"],
    "DEFAULT_PERMISSION_CLASSES": ["apps.access.api.permissions.Decided"],
    "DEFAULT_PARSER_CLASSES": ["apps.core.parsers.SafeJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "apps.core.exceptions.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "mqweb",
    "DESCRIPTION": "A message queue with RocketMQ's semantics: data plane and control plane.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["apps.access.api.permissions.Decided"],
    "SERVE_AUTHENTICATION": ["apps.access.api.permissions.AsDecided"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "GrantKindEnum": ["topic", "group", "cluster"],
        "OutcomeEnum": "apps.clockwork.models.Outcome",
        "PartKindEnum": "apps.clockwork.models.Part.Kind",
        "JobKindEnum": ["resend"],
        "JobStateEnum": "apps.deadletters.models.JobState",
        "DeadLetterStateEnum": "apps.deadletters.models.State",
        "PipelineRunStateEnum": "apps.pipelines.models.RunState",
        "PipelineTriggerEnum": "apps.pipelines.models.Trigger",
        "AlertStateEnum": [state.value for state in AlertState],
        "AlertKindEnum": [kind.value for kind in AlertKind],
        "AlertSeverityEnum": [severity.value for severity in AlertSeverity],
        "AlertScopeEnum": [scope.value for scope in AlertScope],
        "ChannelKindEnum": ["webhook", "dingtalk", "slack", "mail"],
        "NotificationStateEnum": "apps.alerts.models.NotificationState",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "mqweb.openapi.add_data_plane",
    ],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "apps.core.logging.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": MQWEB.log_level},
    "loggers": {
        # Django attaches handlers of its own to these two; ours is at the root.
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        "django.server": {"handlers": [], "level": "WARNING", "propagate": True},
        # Refusals are answered and logged as `http_request`; a 4xx is no warning of ours.
        "django.request": {"handlers": [], "level": "ERROR", "propagate": True},
        "uvicorn": {"handlers": [], "level": "WARNING", "propagate": True},
        "psycopg.pool": {"handlers": [], "level": "ERROR", "propagate": True},
        # One line for each tick, received and succeeded, would bury everything else.
        "celery.beat": {"handlers": [], "level": "WARNING", "propagate": True},
        "celery.worker.strategy": {"handlers": [], "level": "WARNING", "propagate": True},
        "celery.app.trace": {"handlers": [], "level": "WARNING", "propagate": True},
    },
}
