"""REST addresses of delayed messages. Cancelling and sending now are the data plane's."""

from django.urls import path

from apps.delays.api import views

urlpatterns = [
    path("delayed", views.DelayedListView.as_view()),
    path("delayed/levels", views.DelayLevelsView.as_view()),
    path("delayed/status", views.DelayStatusView.as_view()),
]
