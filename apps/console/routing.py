"""Addresses of the live sockets. The origin of a handshake is checked in `mqweb.asgi`."""

from django.urls import path

from apps.console.sockets import OverviewSocket

websocket_urlpatterns = [
    path("ws/overview/", OverviewSocket.as_asgi()),
]
