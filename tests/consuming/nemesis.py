"""What is done to the members of an ordered group, and to the broker, while there is load.

Each act waits until it has had its effect, so that the next one meets a group at work; the order of
acts and their victims come from the run's seed.
"""

from collections.abc import Callable, Sequence

from tests.consuming.field import LEASE_MS, ORDERED, QUEUES, Client, Run, wait_for

Act = Callable[[Run], None]


def join(run: Run) -> None:
    """A member joins and gets a queue; where there is none for one more, somebody leaves first."""
    if len(run.members(ORDERED)) >= QUEUES:
        run.stop(_victim(run))
    member = run.start_client("ordered", ORDERED)
    _wait_until_it_holds(run, member)


def leave(run: Run) -> None:
    """A member leaves in order, and another one joins."""
    run.stop(_victim(run))
    join(run)


def kill(run: Run) -> None:
    """A member that holds a queue is killed; others take its queues over; another one joins."""
    victim = _victim(run)
    held = _held(run, victim)
    run.kill(victim)
    _wait_until_taken(run, victim, held)
    join(run)


def pause(run: Run) -> None:
    """A member stands still for longer than its lease, and wakes up when others have its queues.

    What it might then still believe is tried as well: its last epoch must be refused.
    """
    victim = _victim(run)
    held = _held(run, victim)
    run.pause(victim)
    _wait_until_taken(run, victim, held)
    run.resume(victim)
    for queue, epoch in held.items():
        run.commit_as(victim.name, queue, epoch, offset=0)
    _wait_until_it_holds(run, victim)


def restart_broker(run: Run) -> None:
    """The broker is killed and started again while members believe that they hold locks."""
    assert run.locks()
    run.kill_broker()
    run.start_broker()


def pause_broker(run: Run) -> None:
    """The broker stands still until every lease is over, by its clock and by everybody's."""
    assert run.locks()
    run.pause_broker(LEASE_MS / 1_000 + 0.5)


ACTS: Sequence[Act] = (join, leave, kill, pause, restart_broker, pause_broker)


def disturb(run: Run, acts: Sequence[Act], *, deliveries_between: int) -> None:
    """Carry acts out one after the other, with so many deliveries between them."""
    for act in acts:
        run.wait_for_deliveries(deliveries_between)
        print(act.__name__)
        act(run)
    run.wait_for_deliveries(deliveries_between)
    run.heal()


def _victim(run: Run) -> Client:
    """Choose a member that holds a queue and does not stand still."""
    wait_for(lambda: _holders(run), "a member holds a queue")
    return run.rng.choice(_holders(run))


def _holders(run: Run) -> list[Client]:
    owners = {owner for owner, _ in run.locks().values()}
    return [client for client in run.members(ORDERED) if client.name in owners]


def _held(run: Run, client: Client) -> dict[int, int]:
    return {queue: epoch for queue, (owner, epoch) in run.locks().items() if owner == client.name}


def _wait_until_taken(run: Run, victim: Client, held: dict[int, int]) -> None:
    """Wait until others were granted each queue that a client held."""

    def is_taken() -> bool:
        locks = run.locks()
        return all(locks[queue][0] != victim.name for queue in held)

    wait_for(is_taken, f"others took over the queues {sorted(held)} of {victim.name}")


def _wait_until_it_holds(run: Run, client: Client) -> None:
    wait_for(lambda: _held(run, client), f"{client.name} holds a queue")
