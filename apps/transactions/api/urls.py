"""REST addresses of transactions. Beginning and ending them are the data plane's."""

from django.urls import path

from apps.transactions.api import given_up, views

urlpatterns = [
    path("transactions", views.TransactionListView.as_view()),
    path("transactions/status", views.TransactionStatusView.as_view()),
    path("transactions/given-up", given_up.GivenUpListView.as_view()),
    path("transactions/given-up/<str:offset>:send", given_up.GivenUpSendView.as_view()),
    path("transactions/given-up/<str:offset>", given_up.GivenUpView.as_view()),
    path("transactions/<str:transaction_id>:check-now", views.TransactionCheckView.as_view()),
]
