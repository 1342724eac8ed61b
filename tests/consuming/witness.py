"""What the requests of a group's member mean, written into its history. Knows the HTTP contract.

It sees what passes between a client library and the broker, so that the history does not depend on
what the library says of itself.
"""

import json
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.consuming.relay import Answer, Answered, Request
from tests.histories.events import Verb
from tests.histories.recorder import Recorder, Running

_MEMBER = re.compile(r"/api/v1/groups/([^/]+)/members/([^/]+):(heartbeat|leave)")
_LOCKS = re.compile(r"/api/v1/groups/([^/]+)/locks:(acquire|release)")
_COMMIT = re.compile(r"/api/v1/groups/([^/]+)/offsets:commit")
_SEND_BACK = re.compile(r"/api/v1/groups/([^/]+)/messages:send-back")
_PULL = re.compile(r"/api/v1/topics/([^/]+)/queues/(\d+)/messages")

# A refusal says that nothing was done; anything else above it does not.
_REFUSED = range(400, 500)
Told = Callable[[Any], dict[str, Any]]


class Witness:
    """The watcher of one process's relay."""

    def __init__(self, recorder: Recorder) -> None:
        """Write to a recorder."""
        self._recorder = recorder
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], list[list[Any]]] = {}
        self._joined: set[tuple[str, str]] = set()

    def __call__(self, request: Request) -> Answered | None:
        """Write what a request asks; return what writes its answer."""
        url = urlsplit(request.target)
        if found := _MEMBER.fullmatch(url.path):
            group, client = unquote(found[1]), unquote(found[2])
            return self._leave(group, client) if found[3] == "leave" else self._beat(group, client)
        if found := _LOCKS.fullmatch(url.path):
            return self._locks(unquote(found[1]), json.loads(request.body), found[2])
        if found := _COMMIT.fullmatch(url.path):
            return self._commit(unquote(found[1]), json.loads(request.body))
        if found := _SEND_BACK.fullmatch(url.path):
            return self._send_back(unquote(found[1]), json.loads(request.body))
        if found := _PULL.fullmatch(url.path):
            return self._pull(unquote(found[1]), int(found[2]), dict(parse_qsl(url.query)))
        return None

    def _beat(self, group: str, client: str) -> Answered:
        key = (group, client)
        with self._lock:
            is_new = key not in self._joined
            self._joined.add(key)
        joining = self._recorder.invoke(Verb.JOIN, group=group, client=client) if is_new else None

        def answered(answer: Answer | None) -> None:
            if joining is not None:
                complete(joining, answer)
            if answer is None or answer.status != 200:
                return
            document = json.loads(answer.body)
            queues = [
                [topic, queue]
                for topic, numbers in sorted(document["assignment"].items())
                for queue in sorted(numbers)
            ]
            with self._lock:
                is_changed = self._queues.get(key) != queues
                self._queues[key] = queues
            if is_changed:
                self._recorder.notice(
                    Verb.ASSIGN,
                    group=group,
                    client=client,
                    generation=document["generation"],
                    queues=queues,
                )

        return answered

    def _leave(self, group: str, client: str) -> Answered:
        with self._lock:
            self._joined.discard((group, client))
        leaving = self._recorder.invoke(Verb.LEAVE, group=group, client=client)
        return lambda answer: complete(leaving, answer)

    def _locks(self, group: str, document: Any, what: str) -> Answered:
        verb = Verb.LOCK if what == "acquire" else Verb.UNLOCK
        queues = [[item["topic"], item["queue"]] for item in document["queues"]]
        client = document["client_id"]
        locking = self._recorder.invoke(verb, group=group, client=client, queues=queues)
        return lambda answer: complete(locking, answer, _granted)

    def _commit(self, group: str, document: Any) -> Answered:
        offsets = [
            [item["topic"], item["queue"], int(item["offset"]), item.get("epoch")]
            for item in document["offsets"]
        ]
        client = document.get("client_id", "")
        committing = self._recorder.invoke(Verb.COMMIT, group=group, client=client, offsets=offsets)
        return lambda answer: complete(committing, answer)

    def _send_back(self, group: str, document: Any) -> Answered:
        """Write that messages are done where they were: another try of them is another place's."""

        def note(verb: Verb, message: Any) -> None:
            self._recorder.notice(
                verb,
                group=group,
                topic=message["topic"],
                queue=message["queue"],
                offset=int(message["offset"]),
            )

        def answered(answer: Answer | None) -> None:
            if answer is None:
                # Whether it was carried out is seen in the store, once the broker has stopped.
                for message in document["messages"]:
                    note(Verb.DEAD_UNKNOWN, message)
            elif answer.status < 400:
                for result in json.loads(answer.body)["results"]:
                    if result["outcome"] != "gone":
                        note(Verb.DEAD, document["messages"][result["index"]])

        return answered

    def _pull(self, topic: str, queue: int, query: dict[str, str]) -> Answered | None:
        if "group" not in query:
            return None
        epoch = query.get("epoch")
        pulling = self._recorder.invoke(
            Verb.PULL,
            group=query["group"],
            client=query.get("client_id", ""),
            topic=topic,
            queue=queue,
            offset=int(query["offset"]),
            epoch=None if epoch is None else int(epoch),
        )
        return lambda answer: complete(pulling, answer)


def complete(running: Running, answer: Answer | None, told: Told = lambda document: {}) -> None:
    """Write what became of an operation, by the status of its answer."""
    if answer is None:
        running.info("unanswered")
    elif answer.status < 400:
        running.ok(**told(json.loads(answer.body) if answer.body[:1] == b"{" else {}))
    else:
        code = str(json.loads(answer.body).get("code"))
        if answer.status in _REFUSED:
            running.fail(code)
        else:
            running.info(code)


def _granted(document: Any) -> dict[str, Any]:
    return {
        "locked": [
            [lock["topic"], lock["queue"], lock["epoch"], lock["expires_in_ms"]]
            for lock in document["locked"]
        ],
        "refused": [[lock["topic"], lock["queue"], lock["owner"]] for lock in document["refused"]],
    }
