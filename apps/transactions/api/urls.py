"""REST addresses of transactions. Beginning and ending them are the data plane's."""

from django.urls import path

from apps.transactions.api import views

urlpatterns = [
    path("transactions", views.TransactionListView.as_view()),
    path("transactions/status", views.TransactionStatusView.as_view()),
    path("transactions/<str:transaction_id>:check-now", views.TransactionCheckView.as_view()),
]
