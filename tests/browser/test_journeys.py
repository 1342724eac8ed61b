"""What operators come for, from the page they open to what the product then does."""

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Kept
from tests.browser.shop import Shop
from tests.web.product import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.process]


def test_a_lock_is_seen_to_move_when_its_holder_is_killed(
    shop: Shop, page: "Page", kept: Kept
) -> None:
    shop.topic("moves")
    shop.send("moves", "first")
    first = shop.member("moves", "movers")
    wait_for(lambda: shop.owner("movers", "moves"))
    owner = shop.owner("movers", "moves")
    assert owner is not None
    second = shop.member("moves", "movers")
    page.goto("/locks")
    row = page.locator("tbody[data-row='movers/moves/0']").filter(has_text=owner)
    row.wait_for()
    page.get_by_text("Live", exact=True).wait_for()

    # Whoever has it is killed: shares may have changed with the second member.
    holder = shop.owner("movers", "moves")
    shop.kill(first)
    if holder != owner:
        shop.kill(second)
        shop.member("moves", "movers")

    # Nothing is loaded again: the page is told.
    wait_for(lambda: shop.owner("movers", "moves") not in (None, holder))
    new = shop.owner("movers", "moves")
    assert new is not None
    place = page.locator("tbody[data-row='movers/moves/0']")
    place.filter(has_text=new).wait_for()
    lines = page.locator("[data-rows=lines] tbody").filter(has_text=new)
    lines.first.wait_for()
    kept.picture(page, "journey-lock-moved")


def test_a_cell_of_the_grid_moves_counts_refusals_and_its_lock_is_taken_away(
    shop: Shop, page: "Page", kept: Kept
) -> None:
    shop.topic("cells")
    shop.send("cells", "first")
    first = shop.member("cells", "tills")
    wait_for(lambda: shop.owner("tills", "cells"))
    before = shop.owner("tills", "cells")
    assert before is not None
    page.goto("/locks?group=tills")
    cell = page.locator("#grid li[data-row='tills/cells/0']")
    cell.locator("[data-value=owner]").filter(has_text=before).wait_for()
    # A member is known as who shall read the queue before it has taken the lock.
    expect(cell.locator(".lock-state")).to_have_attribute("data-level", "held")
    page.get_by_text("Live", exact=True).wait_for()
    loaded = page.evaluate("performance.timeOrigin")

    # Somebody else asks for what is held, is refused, and the cell says so.
    assert shop.ask_for_lock("rival", "tills", "cells") == before
    cell.locator(".lock-mark[data-level=refused]").wait_for()
    refused = page.locator("tbody[data-row='tills/cells/0'] [data-value=refused_per_min]")
    expect(refused).to_have_text(re.compile("[1-9]"))

    # Its owner is killed, and the cell moves to whoever comes: no page is loaded again.
    shop.kill(first)
    shop.member("cells", "tills")
    wait_for(lambda: shop.owner("tills", "cells") not in (None, before))
    after = shop.owner("tills", "cells")
    assert after is not None
    cell.locator("[data-value=owner]").filter(has_text=after).wait_for()
    expect(cell.locator(".lock-state")).to_have_attribute("data-level", "held")
    assert page.evaluate("performance.timeOrigin") == loaded
    kept.picture(page, "journey-grid-moved")

    # A lock is taken away for a reason, which the lines and lanes of its page give.
    cell.locator("a").click()
    page.wait_for_url("**/locks/tills~cells~0/")
    form = page.locator("form[action$='/release']")
    expect(form.get_by_label("Held by")).to_have_value(after)
    form.get_by_role("button", name="Release").click()
    # Without a reason the browser asks for one, and nothing is sent.
    assert page.url.endswith("/locks/tills~cells~0/")
    assert shop.owner("tills", "cells") == after
    form.get_by_label("Reason, to be written down").fill("the till burns")
    form.get_by_role("button", name="Release").click()
    page.get_by_text(f"The lock was taken from {after}.").wait_for()

    def is_told() -> bool:
        page.goto("/locks/tills~cells~0/")
        return (
            page.locator("svg.owners .mark.forced").count() > 0
            and page.locator("tr", has_text="the till burns").count() > 0
        )

    wait_for(is_told)
    kept.picture(page, "journey-lock-released")


def test_dead_letters_are_sent_again_from_the_admin(shop: Shop, page: "Page", kept: Kept) -> None:
    bodies = ["letter one", "letter two", "letter three"]
    shop.let_die("letters", "postmen", bodies, "nobody lives there")
    page.goto("/admin/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(shop.password)
    page.get_by_role("button", name="Log in").click()

    def are_listed() -> bool:
        page.goto("/admin/deadletters/deadletter/?group=postmen")
        return page.locator("#result_list tbody tr").count() == len(bodies)

    wait_for(are_listed)
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("resend")
    page.get_by_role("button", name=re.compile("Go|Run")).click()
    page.get_by_text("postmen: 3 to letters").wait_for()
    kept.picture(page, "journey-resend-asked")
    page.get_by_role("button", name="Send them").click()
    page.get_by_text("job", exact=False).first.wait_for()

    found: list[str] = []

    def have_come() -> bool:
        found.extend(shop.received("letters", "postmen", wait_ms=1_000))
        return len(found) >= len(bodies)

    wait_for(have_come)
    assert sorted(found) == sorted(bodies)

    def are_told_as_sent() -> bool:
        page.goto("/dead-letters/postmen/?state=resent")
        return page.get_by_text("nobody lives there").count() >= len(bodies)

    wait_for(are_told_as_sent)
    kept.picture(page, "journey-resent")


def test_a_delayed_message_is_called_off(shop: Shop, page: "Page", kept: Kept) -> None:
    shop.topic("later")
    shop.send("later", "not wanted", keys="unwanted", delay_ms=3_600_000)
    shop.send("later", "wanted", keys="wanted", delay_ms=3_600_000)
    page.goto("/delays?topic=later")
    row = page.locator("tr").filter(has_text="unwanted")
    row.wait_for()
    kept.picture(page, "journey-delays")

    row.get_by_role("button", name="Cancel").click()

    page.locator(".notice").wait_for()
    expect(row).to_have_count(0)
    other = page.locator("tr").filter(has_text="wanted")
    other.get_by_role("button", name="Deliver now").click()
    page.locator(".notice").wait_for()
    expect(other).to_have_count(0)
    found: list[str] = []
    wait_for(lambda: found.extend(shop.received("later", "readers", wait_ms=500)) or found)
    assert found == ["wanted"]


def test_a_message_that_blocks_its_queue_is_skipped_and_nothing_else(
    shop: Shop, page: "Page", kept: Kept
) -> None:
    shop.topic("narrow")
    shop.send("narrow", "poison", "good", "better")
    with shop.ordered("narrow", "passers") as consumer:
        (poison,) = consumer.receive(messages_max=1, wait_ms=10_000)
        consumer.nack(poison, delay_ms=0, reason="it is poison")
        (again,) = consumer.receive(messages_max=1, wait_ms=10_000)
        assert again.body == b"poison"
        consumer.nack(again, delay_ms=3_600_000, reason="it still is")

    page.goto("/locks/passers~narrow~0/")
    page.get_by_role("link", name="Skip the head").click()
    expect(page.locator("main")).to_contain_text("poison")
    kept.picture(page, "journey-skip-asked")
    page.get_by_label("Reason").fill("nobody can eat it")
    page.get_by_role("button", name="Skip it").click()

    page.wait_for_url("**/locks/passers~narrow~0/")
    with shop.ordered("narrow", "passers") as consumer:
        found: list[bytes] = []

        def both_have_come() -> bool:
            for message in consumer.receive(wait_ms=1_000):
                found.append(message.body)
                consumer.ack(message)
            return len(found) >= 2

        wait_for(both_have_come)
    assert found == [b"good", b"better"]


def test_an_offset_is_reset_by_its_preview_and_the_reset_undone(
    shop: Shop, page: "Page", kept: Kept
) -> None:
    shop.topic("again")
    shop.send("again", "one", "two", "three")
    taken: list[str] = []
    wait_for(lambda: taken.extend(shop.received("again", "rereaders", wait_ms=500)) or taken[2:])

    def is_known() -> bool:
        # A group is on pages from the next picture on.
        page.goto("/groups/rereaders/offsets/")
        return page.get_by_label("Go on at").count() == 1

    wait_for(is_known)
    page.get_by_label("Go on at").select_option("earliest")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("3 messages come again, 0 are passed over").wait_for()
    kept.picture(page, "journey-reset-preview")

    page.get_by_label("Reason").fill("the shop asked for them")
    page.locator("main").get_by_role("button", name="Apply").click()

    page.locator("details.undo summary").first.wait_for()
    assert shop.committed("rereaders", "again") == 0
    page.locator("details.undo summary").first.click()
    page.get_by_label("Why").first.fill("it was the wrong group")
    page.locator("details.undo").first.get_by_role("button", name="Undo").click()
    page.get_by_text("the shop asked for them").wait_for()
    wait_for(lambda: shop.committed("rereaders", "again") == len(taken))


def test_what_was_chosen_to_look_at_stays_in_the_address(shop: Shop, page: "Page") -> None:
    shop.topic("addresses")
    page.goto("/")

    page.locator("a.name", has_text="addresses").first.click()

    page.wait_for_url("**/topics/addresses/**")
    expect(page.get_by_role("heading", level=1)).to_have_text("addresses")


def test_a_chosen_theme_changes_what_is_seen(page: "Page") -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/locks")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.get_by_label("Colours").select_option("dark")
    with page.expect_navigation():
        page.get_by_role("button", name="Apply").click()

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
