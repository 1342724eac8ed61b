"""Addresses of the pages about problems."""

from django.urls import path

from apps.core import views

urlpatterns = [
    path("problems/", views.problem_list, name="problems"),
    path("problems/<slug:code>", views.problem_detail, name="problem"),
]
