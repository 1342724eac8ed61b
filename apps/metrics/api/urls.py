"""REST addresses of series."""

from django.urls import path

from apps.metrics.api import views

urlpatterns = [
    path("series", views.SeriesListView.as_view()),
    path("series/<str:name>", views.SeriesView.as_view()),
]
