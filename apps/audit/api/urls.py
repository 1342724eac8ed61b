"""Addresses of the audit log."""

from django.urls import path

from apps.audit.api import views

urlpatterns = [
    path("audit", views.AuditListView.as_view()),
    path("audit:export", views.AuditExportView.as_view()),
    path("audit/<str:number>", views.AuditView.as_view()),
]
