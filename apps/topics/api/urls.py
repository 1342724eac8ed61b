"""REST addresses of topics."""

from django.urls import path

from apps.topics.api import views

urlpatterns = [
    path("topics", views.TopicListView.as_view()),
    path("topics/<str:topic>", views.TopicView.as_view()),
    path("topics/<str:topic>/lite-topics", views.LiteTopicListView.as_view()),
]
