"""A process without a broker whose viewer is shown what travels over Redis. Opens no engine.

    python -m tests.process.elsewhere locks.page=2

Writes each frame of a view as a line, and ends with its standard input.
"""

import asyncio
import sys

import django


async def watch(view: str) -> None:
    """Write frames for as long as somebody listens."""
    # Models can be imported only after `django.setup`.
    from apps.console.audience import audience
    from apps.console.relay import Incoming

    async def receive() -> None:
        incoming = Incoming()
        while True:
            await incoming.step()

    async def show() -> None:
        with audience.joined(view) as watcher:
            while True:
                sys.stdout.write(await watcher.next() + "\n")
                sys.stdout.flush()

    tasks = [asyncio.create_task(work()) for work in (receive, show)]
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), is_over.set)
    ended = asyncio.create_task(is_over.wait())
    done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for task in done:
        task.result()


if __name__ == "__main__":
    django.setup()
    asyncio.run(watch(sys.argv[1]))
