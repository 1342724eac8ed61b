"""REST addresses of groups."""

from django.urls import path

from apps.groups.api import views

urlpatterns = [
    path("groups", views.GroupListView.as_view()),
    path("groups/<str:group>", views.GroupView.as_view()),
    path("groups/<str:group>/offsets", views.GroupOffsetsView.as_view()),
    path("groups/<str:group>/lag", views.GroupLagView.as_view()),
]
