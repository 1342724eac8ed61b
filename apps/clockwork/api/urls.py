"""REST address of the clockwork."""

from django.urls import path

from apps.clockwork.api import views

urlpatterns = [path("clockwork", views.ClockworkView.as_view())]
