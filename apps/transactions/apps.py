"""Application configuration of the transactions."""

from django.apps import AppConfig


class TransactionsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.transactions"
    label = "transactions"
