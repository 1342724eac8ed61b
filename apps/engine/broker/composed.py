"""Every layer of a broker on one store, composed in order. Answers nothing.

Knows which part needs which; what the parts do is theirs, and the verbs are `core`'s.
"""

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.ack import Ack
from apps.engine.broker.assignment import Assigner
from apps.engine.broker.backlog import Backlog
from apps.engine.broker.begin import Begin
from apps.engine.broker.burying import Burying
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.compaction import Compaction
from apps.engine.broker.damage import Damage
from apps.engine.broker.deadletters import DeadLetters
from apps.engine.broker.delaydelivery import DelayDelivery
from apps.engine.broker.delaylist import DelayList
from apps.engine.broker.delays import Delays
from apps.engine.broker.fences import Fences
from apps.engine.broker.fencing import Fencing
from apps.engine.broker.givenup import GivenUp
from apps.engine.broker.handles import Handles
from apps.engine.broker.holders import Holders
from apps.engine.broker.intake import Intake
from apps.engine.broker.levellist import LevelList
from apps.engine.broker.levels import DelayLevels
from apps.engine.broker.liteends import LiteEnds
from apps.engine.broker.litelags import LiteLags
from apps.engine.broker.literead import LiteRead
from apps.engine.broker.litesets import LiteSets
from apps.engine.broker.litetopics import LiteTopics
from apps.engine.broker.members import Members
from apps.engine.broker.membership import Membership
from apps.engine.broker.offsets import Offsets
from apps.engine.broker.pop import Pop
from apps.engine.broker.produce import Appender
from apps.engine.broker.queuecare import QueueCare
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.repeats import Repeats
from apps.engine.broker.replay import CHECKPOINT, load_state, replay
from apps.engine.broker.resets import Resets
from apps.engine.broker.retention import Retention
from apps.engine.broker.retrycounts import RetryCounts
from apps.engine.broker.retryqueues import RetryQueues
from apps.engine.broker.schedule import Schedule
from apps.engine.broker.sendback import SendBack
from apps.engine.broker.sessions import Sessions
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.broker.transactionchecks import TransactionChecks
from apps.engine.broker.transactions import Transactions
from apps.engine.clock import Clock
from apps.engine.codec.layout import TIMER_TOPIC
from apps.engine.config import EngineConfig
from apps.engine.derived.dispatch import dispatch
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.limits import (
    GROUP_MEMBERS_MAX,
    LITE_SUBSCRIPTIONS_MAX,
    LITE_SUBSCRIPTIONS_OF_STORE_MAX,
    LITE_TOPICS_MAX,
    MEMBERS_MAX,
    MIB,
    READERS_MAX,
    SESSIONS_MAX,
)
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.retained import load_retained

# Messages that are written again in one frame hold everybody up for as long as they are copied.
_COPIES_BYTES_MAX = 4 * MIB


class Composed:
    """Every layer of one store, each bound to those below it."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        *,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints,
        tuning: TimerTuning | None = None,
    ) -> None:
        """Bring derived and consumer state up to the end of an open log."""
        self._disk = disk
        self._failpoints = failpoints
        self.clock = clock
        self.log = log
        self.queues = QueueSet(disk, config=config, failpoints=failpoints)
        self.catalog = Catalog(disk, failpoints=failpoints)
        self.state = ConsumerState(clock)
        self.lites = LiteTopics(self.queues, topics_max=LITE_TOPICS_MAX)
        self.index = KeyIndex(disk, config=config, failpoints=failpoints)
        start = self.queues.load(
            log_start=log.log_start,
            log_end=log.written_offset,
            starts=load_retained(disk).queues,
        )
        index_start = self.index.load(log_start=log.log_start, log_end=log.written_offset)
        self.dispatched_records = dispatch(
            log.stretches(min(start, index_start)),
            self.queues,
            self.index,
            queues_from=start,
            quarantine=log.quarantine,
        )
        self.queues.show(log.synced_offset)
        self.damage = Damage(log, self.queues)
        self.times = StoreTimes(log)
        self.compaction = Compaction(
            disk,
            log,
            queues=self.queues,
            catalog=self.catalog,
            times=self.times,
            damage=self.damage,
            config=config,
            clock=clock,
            failpoints=failpoints,
        )
        self.damage.mark()
        content = load_state(disk, log)
        self.replayed_events = replay(
            content, self.state, log=log, queues=self.queues, damage=self.damage
        )
        try:
            gone = {topic: self.state.floors.get((topic, 0), 0) for topic in self.state.gone_lites}
            self.lites.load(() if content is None else content.get("lites", ()), gone=gone)
        except (TypeError, ValueError) as error:
            raise StoreDamaged(f"{CHECKPOINT} holds something else than lite topics") from error
        # So far nothing was written to the log, and nothing written that a start relies on.
        log.settle()
        self.appender = Appender(
            log, self.queues, self.index, self.catalog, lites=self.lites, config=config
        )
        self.levels = DelayLevels(
            config.delay_levels_ms,
            clock,
            own_delays=lambda batch, sections: self.delays.route(batch, sections),
        )
        self.intake = Intake(self.levels.route)
        self.recorder = Recorder(self.appender, self.state, clock=clock, failpoints=failpoints)
        self.handles = Handles(log.store_id)
        self.settler = Ack(
            self.state,
            self.recorder,
            self.handles,
            catalog=self.catalog,
            levels_ms=config.delay_levels_ms,
            clock=clock,
            epoch=log.epoch,
        )
        self.sessions = Sessions(clock, sessions_max=SESSIONS_MAX)
        self.access = AccessLocks(clock, progress=self.state.progress, readers_max=READERS_MAX)
        self.fences = Fences(log.epoch)
        self.begin = Begin(self.state, self.recorder, self.queues, self.catalog, self.times)
        self._compose_groups(config)
        self._compose_delays(config, tuning, failpoints)
        self._compose_failures(config)
        self._compose_transactions(config)
        self.pop = Pop(
            log=log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            handles=self.handles,
            locks=self.locks,
            burying=self.burying,
            clock=clock,
        )
        self._compose_operators(config)
        self._compose_retention(config, 0 if content is None else int(content["journal_offset"]))
        self._compose_lites()

    def _compose_lites(self) -> None:
        """Compose who is subscribed to lite topics, and how these end."""
        sets = LiteSets(
            self.clock,
            of_client_max=LITE_SUBSCRIPTIONS_MAX,
            of_store_max=LITE_SUBSCRIPTIONS_OF_STORE_MAX,
        )
        self.litelags = LiteLags(
            self.lites,
            sets,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            times=self.times,
            clock=self.clock,
        )
        self.retention.on_hidden = self.litelags.hidden
        self.literead = LiteRead(
            sets,
            self.lites,
            pop=self.pop,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            times=self.times,
            clock=self.clock,
        )
        self.liteends = LiteEnds(
            self.lites,
            sets,
            self.litelags,
            log=self.log,
            queues=self.queues,
            state=self.state,
            recorder=self.recorder,
            catalog=self.catalog,
            times=self.times,
            now_ms=self.retention.now_ms,
            begins_listed=lambda: self.retention.begins_listed,
        )

    def _compose_groups(self, config: EngineConfig) -> None:
        """Compose what groups at work need: members, assignments, locks, and who may do what."""
        clock, fences = self.clock, self.fences
        self.members = Members(
            clock,
            timeout_ms=config.member_timeout_ms,
            grace_ms=config.disconnect_grace_ms,
            members_max=MEMBERS_MAX,
            group_members_max=GROUP_MEMBERS_MAX,
        )
        self.assigner = Assigner(
            self.state.assignments,
            self.recorder.record,
            members=self.members,
            catalog=self.catalog,
            fences=fences,
            clock=clock,
            broker_name=config.broker_name,
        )
        self.locks = QueueLocks(
            self.state.locks,
            self.recorder.record,
            self.recorder.record_all,
            catalog=self.catalog,
            clock=clock,
            fences=fences,
            lease_ms=config.queue_lock_ms,
            owner_of=self.assigner.owner,
            suspensions=self.state.operators.suspensions,
        )
        self.fencing = Fencing(
            catalog=self.catalog,
            state=self.state,
            handles=self.handles,
            locks=self.locks,
            access=self.access,
            members=self.members,
            clock=clock,
            owner_of=self.assigner.owner,
        )
        self.membership = Membership(
            members=self.members,
            table=self.state.assignments,
            assigner=self.assigner,
            locks=self.locks,
            access=self.access,
            sessions=self.sessions,
            catalog=self.catalog,
            fences=fences,
            operators=self.state.operators,
            heartbeat_ms=config.member_timeout_ms // 3,
        )
        retries = RetryQueues(self.queues, self.members)
        self.backlog = Backlog(
            state=self.state,
            queues=self.queues,
            catalog=self.catalog,
            locks=self.locks,
            access=self.access,
            members=self.members,
            times=self.times,
            retries=retries,
            clock=clock,
            owner_of=self.assigner.owner,
        )
        self.offsets = Offsets(
            self.state,
            self.recorder,
            self.queues,
            self.catalog,
            access=self.access,
            retries=retries,
        )

    def _compose_operators(self, config: EngineConfig) -> None:
        """Compose what operators do to queues of groups."""
        self.queuecare = QueueCare(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            locks=self.locks,
            members=self.members,
            access=self.access,
            assigner=self.assigner,
            fences=self.fences,
            clock=self.clock,
            bytes_max=min(_COPIES_BYTES_MAX, config.batch_bytes_max // 2),
            was_ordered=self.pop.was_ordered,
        )
        self.resets = Resets(
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            locks=self.locks,
            access=self.access,
            assigner=self.assigner,
            fences=self.fences,
            times=self.times,
        )

    def _compose_transactions(self, config: EngineConfig) -> None:
        """Compose what producers send once and no more, and what they have yet to decide."""
        state, clock = self.state, self.clock
        self.repeats = Repeats(
            state.repeats, self.recorder, self.intake, self.queues, self.log, clock=clock
        )
        self.transactions = Transactions(
            state.transactions,
            self.recorder,
            self.appender,
            self.repeats,
            self.queues,
            self.catalog,
            self.log,
            config=config,
            clock=clock,
        )
        self.givenup = GivenUp(
            state.transactions,
            self.recorder,
            self.queues,
            self.catalog,
            self.log,
            ids=self.transactions.ids,
        )
        self.checks = TransactionChecks(
            self.transactions, state.transactions, self.recorder, config=config, clock=clock
        )

    def _compose_failures(self, config: EngineConfig) -> None:
        """Compose delay levels, retries and dead letters."""
        # A frame of copies must fit a segment, also where one message overshoots.
        bytes_max = min(_COPIES_BYTES_MAX, config.batch_bytes_max // 2)
        self.burying = Burying(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            bytes_max=bytes_max,
        )
        self.schedule = Schedule(
            self.levels,
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            clock=self.clock,
            bytes_max=bytes_max,
        )
        self.levellist = LevelList(
            self.schedule,
            self.log,
            self.queues,
            index=self.index,
            times=self.times,
            timers=self.state.timers,
        )
        self.sendback = SendBack(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            fencing=self.fencing,
            levels=self.levels,
            parcel=self.delays.parcel,
            clock=self.clock,
            bytes_max=bytes_max,
            delay_ms_max=config.delay_ms_max,
        )
        self.retrycounts = RetryCounts(
            log=self.log,
            queues=self.queues,
            state=self.state,
            schedule=self.schedule,
            delays=self.delays,
        )
        self.deadletters = DeadLetters(
            log=self.log,
            queues=self.queues,
            catalog=self.catalog,
            state=self.state,
            recorder=self.recorder,
            clock=self.clock,
            bytes_max=bytes_max,
        )

    def _compose_retention(self, config: EngineConfig, journal_offset: int) -> None:
        """Compose what deletes the oldest segments, and who may hold it back."""
        self.holders = Holders(
            log=self.log,
            queues=self.queues,
            state=self.state,
            burying=self.burying,
            schedule=self.schedule,
            delays=self.delays,
            compaction=self.compaction,
            journal_offset=journal_offset,
        )
        self.retention = Retention(
            self._disk,
            self.log,
            queues=self.queues,
            state=self.state,
            recorder=self.recorder,
            catalog=self.catalog,
            times=self.times,
            holders=self.holders,
            lites=self.lites,
            config=config,
            clock=self.clock,
        )
        self.retention.followers += [self.index.follow, self.log.quarantine.forget_below]

    def _compose_delays(
        self, config: EngineConfig, tuning: TimerTuning | None, failpoints: Failpoints
    ) -> None:
        """Compose what waits for a moment of its own, and bring it into memory."""
        self.delays = Delays(
            self._disk,
            self.log,
            self.queues,
            self.state,
            self.recorder,
            damage=self.damage,
            config=config,
            clock=self.clock,
            failpoints=failpoints,
            tuning=tuning,
        )
        parcels = self.queues.queue(TIMER_TOPIC, 0)
        self.damage.rebuild_runs = self.delays.waiting.rebuild
        self.damage.on_lost(lambda _places: self.delays.waiting.forget_parcels(parcels.lost))
        self.delaydelivery = DelayDelivery(
            self.delays,
            self.catalog,
            self.recorder,
            clock=self.clock,
            bytes_max=config.batch_bytes_max // 2,
        )
        self.delaylist = DelayList(self.delays, self.delaydelivery)
