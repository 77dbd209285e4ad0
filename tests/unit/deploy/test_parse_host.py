"""The text of real kernels and programs as the script prints it; the files are cut, not changed."""

from __future__ import annotations

import pytest

from deploy.host import Gpu, Holder, HostFacts, Process
from deploy.parse_host import machine_facts
from deploy.state import GidFacts, Listener

CONTAINER = "48677f8c48cddace3b5b7e71f2f9d385a140e8712fb0d76c04fde1742d672b86"
RDMA = "/sys/class/infiniband/rocep1s0f0"
GID = "0000:0000:0000:0000:0000:ffff:c0a8:c80c"
SPARK = f"""\
\x1eclock
1796071939.500000000
\x1efiles
/proc/net/tcp:  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
/proc/net/tcp:   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0
/proc/meminfo:MemTotal:       127535104 kB
/proc/meminfo:MemFree:         9874348 kB
/proc/meminfo:MemAvailable:   118612228 kB
/proc/meminfo:Buffers:            6728 kB
/proc/meminfo:Cached:         100404516 kB
/proc/meminfo:SwapTotal:      16777212 kB
/proc/meminfo:SwapFree:       16777212 kB
/proc/meminfo:HugePages_Total:       0
/proc/meminfo:CmaTotal:          65536 kB
/proc/meminfo:CmaFree:           65792 kB
/proc/cmdline:BOOT_IMAGE=/boot/vmlinuz root=UUID=1 ro quiet kho=off
/proc/sys/kernel/osrelease:6.17.0-1008-nvidia
/proc/driver/nvidia/version:NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build  (dvs-builder@U22)
/proc/driver/nvidia/version:GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
/sys/class/dmi/id/product_name:NVIDIA_DGX_Spark
{RDMA}/fw_ver:28.45.4028
{RDMA}/device/current_link_speed:32.0 GT/s PCIe
{RDMA}/device/current_link_width:4
{RDMA}/ports/1/state:4: ACTIVE
{RDMA}/ports/1/phys_state:5: LinkUp
{RDMA}/ports/1/link_layer:Ethernet
{RDMA}/ports/1/rate:200 Gb/sec (2X NDR)
{RDMA}/ports/1/gid_attrs/types/3:RoCE v2
{RDMA}/ports/1/gids/3:{GID}
{RDMA}/ports/1/gids/10:{GID}
\x1ereadable
{RDMA}/ports/1/gids/0
/proc/net/tcp
\x1edevices
{RDMA}
/sys/class/infiniband/roceP2p1s0f0
{RDMA}/device/net/enp1s0f0np0
\x1enetdevs
[{{"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"addr_info":[{{"family":"inet6","local":"::1","prefixlen":128}}]}}]
\x1egpus
/proc/driver/nvidia/gpus/000f:01:00.0/information
\x1ehook
/usr/bin/nvidia-container-runtime-hook
\x1elimits
Max locked memory         8388608              8388608              bytes     
CapEff:\t000001ffffffffff
\x1edisk
20603718 4096
\x1emissing
/no where
\x1eshm
4096 nccl-a b
\x1estrays
/proc/17/comm:VLLM::Worker_TP
/proc/17/cgroup:0::/system.slice/docker-{CONTAINER}.scope
/proc/18/comm:raylet
/proc/18/cgroup:0::/user.slice/session-1.scope
\x1eholders
LISTEN 0 128 0.0.0.0:8000 0.0.0.0:* users:(("python3",pid=77,fd=3),("python3",pid=78,fd=3))
LISTEN 0 128 [::]:22 [::]:*
\x1eend
"""  # noqa: E501, W291 - as it is printed


def host(**changed: str) -> HostFacts:
    text = SPARK
    for old, new in changed.items():
        text = text.replace(old, new)
    return machine_facts(text).host


def test_a_sparks_machine_is_read() -> None:
    facts = machine_facts(SPARK, asked_s=1796071939.0, told_s=1796071939.4)
    found = facts.host
    assert found.product == "NVIDIA_DGX_Spark"
    assert found.kernel == "6.17.0-1008-nvidia"
    assert found.boot_line.endswith("kho=off")
    assert found.gpu == Gpu(driver="580.95.05", count=1, hook=True)
    assert found.clock_ahead_s == pytest.approx(0.3)
    assert found.clock_within_s == pytest.approx(0.2)
    assert found.model_free_bytes == 20603718 * 4096
    assert found.missing == ("/no where",)
    assert found.shm == (("nccl-a b", 4096),)
    assert found.strays == (Process(17, "VLLM::Worker_TP", CONTAINER), Process(18, "raylet"))
    assert found.holders == (Holder(8000, "python3", 77),)
    assert found.sockets_known
    assert facts.listeners == (Listener("0.0.0.0", 8000),)  # noqa: S104


def test_memory_is_in_bytes_and_page_cache_includes_buffers() -> None:
    memory = host().memory
    assert memory is not None
    assert memory.total == 127535104 * 1024
    assert memory.cached == (100404516 + 6728) * 1024
    assert (memory.cma_total, memory.cma_free) == (65536 * 1024, 65792 * 1024)


def test_devices_and_interfaces_are_read() -> None:
    facts = machine_facts(SPARK)
    other, first = facts.hcas
    assert (first.name, first.netdevs, first.rate_gbit_s) == ("rocep1s0f0", ("enp1s0f0np0",), 200)
    assert (first.firmware, first.phys_state) == ("28.45.4028", "5: LinkUp")
    assert (first.pcie_gt_s, first.pcie_width) == (32.0, 4)
    assert first.gids == (GidFacts(3, GID, "RoCE v2"), GidFacts(10, GID, ""))
    assert (other.state, other.rate_gbit_s, other.gids, other.pcie_width) == ("", None, None, None)
    assert [(item.name, item.flags) for item in facts.netdevs] == [
        ("lo", ("LOOPBACK", "UP", "LOWER_UP"))
    ]


@pytest.mark.parametrize(
    ("limit", "capabilities", "lifts"),
    [
        ("8388608", "000001ffffffffff", True),
        ("8388608", "000001fffeffffff", False),
        ("unlimited", "0000000000000000", True),
    ],
)
def test_an_engine_lifts_limits_by_its_own_or_by_its_rights(
    limit: str, capabilities: str, *, lifts: bool
) -> None:
    changed = {"8388608              bytes": f"{limit} bytes", "000001ffffffffff": capabilities}
    assert host(**changed).memlock is lifts


def test_an_ip_that_knows_no_json_leaves_the_interfaces_unknown() -> None:
    assert machine_facts("\x1enetdevs\nBusyBox v1.36.1 multi-call binary.\n").netdevs == ()


def test_a_date_without_fractions_of_a_second_is_no_clock() -> None:
    assert machine_facts("\x1eclock\n1796071939.%N\n").host.clock_ahead_s is None


def test_a_node_that_tells_nothing_is_known_for_nothing() -> None:
    facts = machine_facts("")
    assert facts.host == HostFacts(sockets_known=False)
    assert (facts.hcas, facts.netdevs, facts.listeners) == ((), (), ())


@pytest.mark.parametrize("line", ["MemAvailable:", "MemFree:", "MemTotal:"])
def test_half_of_meminfo_is_no_memory(line: str) -> None:
    assert host(**{line: "Gone:"}).memory is None


def test_the_proprietary_modules_version_is_read_too() -> None:
    text = "NVIDIA UNIX Open Kernel Module for aarch64  580.95.05"
    assert host(**{text: "NVIDIA UNIX x86_64 Kernel Module  590.44.01"}).gpu.driver == "590.44.01"
