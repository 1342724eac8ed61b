"""Names are listed with what people made before what Celery made for itself."""

from apps.console.order import listed


def test_what_celery_made_for_itself_stands_behind_all_others() -> None:
    names = ["celery-q-mqweb", "orders", "celery-bindings", "a", "celeryish", "%RETRY%billing"]

    assert sorted(names, key=listed) == [
        "%RETRY%billing", "a", "celeryish", "orders", "celery-bindings", "celery-q-mqweb",
    ]  # fmt: skip
