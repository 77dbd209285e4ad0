"""The kernel's counters of one half of a cable, and what moved between two readings of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from verify.errors import UnreadableFactError
from verify.parse import RDMA_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from verify.expected import ExpectedPort

PORT_COUNTER_UNIT_BYTES: Final = 4
"""port_xmit_data and port_rcv_data count four bytes each (kernel ABI, sysfs-class-infiniband)."""

ERROR_COUNTERS: Final = (
    *("counters/link_downed", "counters/port_rcv_errors", "counters/symbol_error"),
    *("hw_counters/duplicate_request", "hw_counters/implied_nak_seq_err"),
    *("hw_counters/local_ack_timeout_err", "hw_counters/out_of_buffer"),
    *("hw_counters/out_of_sequence", "hw_counters/packet_seq_err"),
    "hw_counters/rnr_nak_retry_err",
)
"""Below ports/1 of a device. Those of hw_counters are mlx5's; each rise is a message sent again or
lost. Signs of congestion, such as np_cnp_sent, are no errors."""

Way = Literal["rdma_sent", "rdma_received", "netdev_sent", "netdev_received"]

_WIDTHS: Final = (32, 64)
_LAST_PART: Final = 16
"""A counter that fell is taken to have passed its end if it was in this last part of its range."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one half of a node's cable moved between two readings, in bytes.

    `errors` is by how much each error counter rose, for those that the device has. `unread` names
    the counters of data that could not be read, `restarted` those that began again from 0: what
    they counted before is lost, so their growth is a lower bound.
    """

    rdma_sent: int = 0
    rdma_received: int = 0
    netdev_sent: int = 0
    netdev_received: int = 0
    errors: Mapping[str, int] | None = None
    unread: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """What one half moved for a short completion, and for a longer one after it."""

    short: Traffic
    long: Traffic

    def judged(self, way: Way, *, tiny: bool) -> int:
        """The longer one's bytes, less the short one's for a tiny model.

        There what is sent besides the tensors outweighs them, and it is the same for both.
        """
        longer: int = getattr(self.long, way)
        return longer - getattr(self.short, way) if tiny else longer

    def text(self, ways: Iterable[Way]) -> str:
        """The bytes of both, as evidence shows them."""
        return ", ".join(
            f"{getattr(self.short, way)} then {getattr(self.long, way)} bytes {way.split('_')[1]}"
            for way in ways
        )


def counter_paths(port: ExpectedPort) -> tuple[str, ...]:
    """The counters of one half that are read: data by RDMA and by the netdev, and errors."""
    return (*_data_paths(port), *(_error_path(port, name) for name in ERROR_COUNTERS))


def _data_paths(port: ExpectedPort) -> tuple[str, ...]:
    """RDMA sent and received, netdev sent and received."""
    rdma = f"{RDMA_CLASS}/{port.hca}/ports/1/counters"
    netdev = f"/sys/class/net/{port.netdev}/statistics"
    return (
        *(f"{rdma}/port_xmit_data", f"{rdma}/port_rcv_data"),
        *(f"{netdev}/tx_bytes", f"{netdev}/rx_bytes"),
    )


def _error_path(port: ExpectedPort, name: str) -> str:
    return f"{RDMA_CLASS}/{port.hca}/ports/1/{name}"


def parse_counters(files: Mapping[str, str]) -> dict[str, int]:
    """Path to count, of counter files in sysfs."""
    try:
        return {path: int(text) for path, text in files.items()}
    except ValueError as error:
        raise UnreadableFactError(
            source="sysfs counters", expected="decimal numbers", text=str(dict(files))
        ) from error


def traffic_of(port: ExpectedPort, before: Mapping[str, int], after: Mapping[str, int]) -> Traffic:
    """What one half moved between two readings of `counter_paths`."""
    paths = _data_paths(port)
    read = {path for path in counter_paths(port) if path in before and path in after}
    grown = {path: growth(before[path], after[path]) for path in read}
    sent, received, netdev_sent, netdev_received = (grown.get(path, 0) for path in paths)
    return Traffic(
        rdma_sent=sent * PORT_COUNTER_UNIT_BYTES,
        rdma_received=received * PORT_COUNTER_UNIT_BYTES,
        netdev_sent=netdev_sent,
        netdev_received=netdev_received,
        errors={
            name: grown[path]
            for name in ERROR_COUNTERS
            if (path := _error_path(port, name)) in read
        },
        unread=tuple(path for path in paths if path not in read),
        restarted=tuple(path for path in sorted(read) if _restarted(before[path], after[path])),
    )


def growth(before: int, after: int) -> int:
    """By how much a counter grew, at least.

    One that fell has either passed the end of its 32 or 64 bits, if it was near there, or was set
    to 0 by a driver that started again; then it has grown by what it shows now, or more.
    """
    if after >= before:
        return after - before
    width = _width_passed(before)
    return after if width is None else after + (1 << width) - before


def _width_passed(before: int) -> int | None:
    ends = ((width, 1 << width) for width in _WIDTHS)
    return next((width for width, end in ends if end - end // _LAST_PART <= before < end), None)


def _restarted(before: int, after: int) -> bool:
    return after < before and _width_passed(before) is None
