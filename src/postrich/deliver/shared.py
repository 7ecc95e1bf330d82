"""What all lanes of one process share: the store, the clock, the budget, the network's state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from postrich.clock import Clock
from postrich.config import Settings
from postrich.deliver.parcels import Parcels
from postrich.model.job import JobChange
from postrich.observe.metrics import Meters
from postrich.observe.notices import NetworkChanged, Notices
from postrich.rules.budget import ByteBudget
from postrich.rules.dialling import DialBudget
from postrich.rules.health import Connectivity, on_left, on_reached, on_unreached
from postrich.rules.replies import Fault
from postrich.sign.signer import Signers
from postrich.store.port import Store
from postrich.wire.info_cache import RelayInfos

#: Seconds by which clocks that count as the same may differ: so much earlier our leases end.
MARGIN = 0.1


class Network:
    """Whether we are online, by what all lanes saw (A13); tells when that changes."""

    def __init__(self, notices: Notices) -> None:
        self._state = Connectivity()
        self._notices = notices
        self.on_back: list[Callable[[], None]] = []

    @property
    def online(self) -> bool:
        return self._state.online

    @property
    def paused(self) -> bool:
        """The owner said that there is no network: nothing is even tried."""
        return self._state.forced is False

    def reached(self, url: str) -> None:
        self._become(on_reached(self._state, url))

    def unreached(self, url: str, fault: Fault) -> None:
        self._become(on_unreached(self._state, url, fault))

    def left(self, url: str) -> None:
        self._become(on_left(self._state, url))

    def force(self, online: bool | None) -> None:
        """The application knows better (None: it does not any more)."""
        self._become(Connectivity(forced=online))

    def _become(self, state: Connectivity) -> None:
        was, self._state = self._state.online, state
        if was != state.online:
            self._notices.publish(NetworkChanged(state.online))
            if state.online:
                for tell in self.on_back:
                    tell()


class Gate:
    """`serial = true` (S0): only one job is in flight at any moment."""

    def __init__(self, serial: bool) -> None:
        self.serial = serial
        self._job: int | None = None
        self._places: set[int] = set()
        self.on_free: Callable[[], None] = lambda: None

    def admits(self, job: int) -> bool:
        return not self.serial or self._job in (None, job)

    def enter(self, job: int, place: int) -> None:
        """The job is in flight to that destination, which has no other in flight."""
        if self.serial:
            self._job = job
            self._places.add(place)

    def leave(self, place: int, job: int | None = None) -> None:
        """That job, or whatever was in flight there, is not any more."""
        if job not in (None, self._job) or place not in self._places:
            return
        self._places.remove(place)
        if not self._places:
            self._job = None
            self.on_free()


@dataclass
class Shared:
    """Handed to every lane, the stager and the lifeline."""

    store: Store
    clock: Clock
    settings: Settings
    notices: Notices
    signers: Signers
    owner: str
    on_changes: Callable[[list[JobChange]], None]
    meters: Meters = field(default_factory=Meters)
    infos: RelayInfos = field(init=False)
    courtesy: Callable[[str, str, str], tuple[str, bytes] | None] | None = field(init=False)
    knock: Callable[[str], tuple[str, bytes] | None] = field(init=False)
    lists_relay: Callable[[str, str], bool] = field(init=False)
    dialling: DialBudget = field(init=False)
    parcels: Parcels = field(init=False)
    budget: ByteBudget = field(init=False)
    network: Network = field(init=False)
    gate: Gate = field(init=False)
    metered: bool = field(init=False)
    #: Until when, by the monotonic clock, what we hold is certainly ours.
    kept_until: float = field(init=False)
    #: The other processes that deliver for long; they want their share of the lanes.
    others: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.parcels = Parcels(self.store)
        self.infos = RelayInfos(self.clock)
        self.courtesy = None
        self.knock = lambda _pubkey: None
        self.lists_relay = lambda _pubkey, _url: False
        self.dialling = DialBudget(self.settings.budgets.new_per_minute)
        self.budget = ByteBudget(self.settings.bytes_per_minute)
        self.network = Network(self.notices)
        self.gate = Gate(self.settings.serial)
        self.metered = self.settings.metered
        self.kept_until = float("-inf")
        self.others = frozenset()

    @property
    def is_scarce(self) -> bool:
        """Bytes count: urgent and small events go first (A17)."""
        return self.metered or self.budget.per_minute is not None
