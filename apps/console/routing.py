"""Addresses of the live sockets. The origin of a handshake is checked in `mqweb.asgi`."""

from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from apps.console import sockets

websocket_urlpatterns = [
    # An ASGI application: URLRouter takes those where Django takes views.
    path("ws/live/", sockets.live),  # type: ignore[arg-type]
    path("ws/overview/", sockets.overview),  # type: ignore[arg-type]
    # URLRouter fails at an address it does not know, and the handshake with it.
    re_path("", WebsocketDenier.as_asgi()),
]
