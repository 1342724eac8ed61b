"""Application configuration of the transactions."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class TransactionsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.transactions"
    label = "transactions"
    verbose_name = gettext_lazy("Transactions")
