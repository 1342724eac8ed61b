"""REST addresses of messages. Sending, searching and reading them is the data plane's."""

from django.urls import path

from apps.messages.api import views

urlpatterns = [
    path("store", views.StoreView.as_view()),
    # An id is its producer's, and may hold a slash.
    path("messages/<path:message_id>/trace", views.TraceView.as_view()),
]
