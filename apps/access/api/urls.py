"""REST addresses of accounts, grants and tokens."""

from django.urls import path

from apps.access.api import accounts, grants, sessions, tokens

urlpatterns = [
    path("accounts", accounts.AccountListView.as_view()),
    path("accounts/<str:account>/sessions", sessions.SessionListView.as_view()),
    path("accounts/<str:account>/sessions:end", sessions.SessionEndView.as_view()),
    path("accounts/<str:account>/second-factor:off", sessions.SecondFactorOffView.as_view()),
    path("accounts/<str:account>", accounts.AccountView.as_view()),
    path("grants", grants.GrantListView.as_view()),
    path("grants/<str:grant>", grants.GrantView.as_view()),
    path("tokens", tokens.TokenListView.as_view()),
    path("tokens/<str:token>", tokens.TokenView.as_view()),
]
