"""`manage.py demo` as an operator types it."""

import argparse
import signal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from mqclient import Admin
from mqclient.errors import ConnectFailed

from apps.console.management.commands import demo


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--rate", "2001"], ["--rate", "fast"]])
def test_a_rate_out_of_range_is_refused_before_anything_happens(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="rate"):
        call_command("demo", *arguments)


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "nan", "soon"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(CommandError, match="seconds"):
        call_command("demo", "--seconds", seconds)


def test_a_server_that_is_not_there_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_admin: Admin, _topic: str) -> None:
        raise ConnectFailed("cannot connect to 127.0.0.1:1")

    monkeypatch.setattr(Admin, "describe_topic", refuse)

    with pytest.raises(CommandError, match="cannot connect"):
        call_command("demo", stdout=StringIO())


def test_signals_end_the_play_and_are_given_back() -> None:
    class Playing:
        stops = 0

        def stop(self) -> None:
            self.stops += 1

    play = Playing()
    before = signal.getsignal(signal.SIGINT)

    with demo._stopped_by_signals(play):  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    assert play.stops == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_the_flags_have_defaults_that_suit_make_run() -> None:
    parser = demo.Command().create_parser("manage.py", "demo")

    flags = parser.parse_args([])

    assert isinstance(parser, argparse.ArgumentParser)
    assert flags.server == "http://127.0.0.1:8000"
    assert flags.rate == 60
    assert flags.seconds is None
