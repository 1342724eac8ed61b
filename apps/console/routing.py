"""Addresses of the live sockets. The origin of a handshake is checked in `mqweb.asgi`."""

from django.urls import path

from apps.console import sockets

websocket_urlpatterns = [
    # An ASGI application: URLRouter takes those where Django takes views.
    path("ws/live/", sockets.live),  # type: ignore[arg-type]
    path("ws/overview/", sockets.overview),  # type: ignore[arg-type]
]
