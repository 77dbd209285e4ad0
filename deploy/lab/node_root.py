"""The file system that a node sees; runs once, inside its new namespaces.

The machine's own files are there, read-only. What an ordinary machine writes to is private: /run
and /tmp in memory, /etc and /var as a layer in memory over the machine's, /root, /srv and Docker's
data in the lab's folder, so that they outlast a power cut. All of it ends with the namespace.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.lab import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER: Final = "/run/sparklock"
"""Inside a node: its folder on the machine's disk."""
PRIVATE: Final = "/run/private"
"""Inside a node: what must not outlast it."""
DISKS: Final = {
    "root": "/root",
    "srv": "/srv",
    "docker": "/var/lib/docker",
    "sparklock": "/var/lib/sparklock",
    "units": "/etc/systemd/system",
}
"""Folders of the node's own, by name below its folder, and where it sees them."""
CONFIG_FILE: Final = "node.json"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What the process inside a node has to know. `tree` is the root to use, `/` mostly."""

    name: str
    address: str
    hosts: str
    tree: str
    cgroup_parent: str
    containerd_store: bool

    def write(self, folder: Path) -> None:
        """Nothing; the node's folder holds the configuration."""
        (folder / CONFIG_FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> NodeConfig:
        """The configuration in a node's folder."""
        return cls(**json.loads((folder / CONFIG_FILE).read_text()))


def enter(folder: Path, config: NodeConfig) -> str:
    """The storage driver that Docker can use; the calling process has the node's root afterwards.

    OSError names the mount that failed.
    """
    kernel.make_private("/")
    for name in DISKS:
        (folder / name).mkdir(mode=0o700 if name == "root" else 0o755, exist_ok=True)
    with _opened(folder, "/sys/fs/cgroup", "/dev") as (folder_fd, cgroup_fd, devices_fd):
        old_root = None if config.tree == "/" else kernel.pivot_to(config.tree)
        kernel.mount("proc", "/proc", "proc")
        kernel.mount("tmpfs", "/run", "tmpfs", "mode=755", kernel.NOSUID | kernel.NODEV)
        _bind_at(folder_fd, FOLDER)
        # sysfs shows the network namespace it was mounted in; a new one lacks the cgroups.
        kernel.mount("sysfs", "/sys", "sysfs")
        kernel.bind(cgroup_fd, "/sys/fs/cgroup", recursive=True)
        if old_root is not None:
            kernel.bind(devices_fd, "/dev", recursive=True)
            kernel.leave(old_root)
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", "mode=1777")  # noqa: S108 - a mount point
    kernel.mount("tmpfs", "/tmp", "tmpfs", "mode=1777")  # noqa: S108 - a mount point
    _show_devices()
    for name in ("etc", "var"):
        _layer_over(Path("/", name), Path(PRIVATE, name))
    for name, target in DISKS.items():
        _bind_at(f"{FOLDER}/{name}", target)
    kernel.make_read_only("/")  # last: a bind made from a read-only mount would be read-only too
    overlay = can_carry_overlay(Path(DISKS["docker"]))
    settings = daemon_settings(config, storage_driver(config, overlay=overlay))
    _write_etc(config, settings)
    return str(settings["storage-driver"])


def can_carry_overlay(data_root: Path) -> bool:
    """Whether the disk can hold an overlay's upper layer; tried, not guessed."""
    trial = data_root / "overlay-trial"
    lower, merged = trial / "lower", trial / "merged"
    lower.mkdir(parents=True)
    try:
        _layer_over(lower, trial, target=merged)
    except OSError:
        return False
    else:
        kernel.unmount(str(merged))
        return True
    finally:
        shutil.rmtree(trial)


@contextmanager
def _opened(*folders: Path | str) -> Iterator[tuple[int, ...]]:
    """Descriptors of folders, good also when their paths are hidden."""
    descriptors = tuple(os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in folders)
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def _bind_at(source: str | int, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    kernel.bind(source, target)


def _layer_over(lower: Path, private: Path, target: Path | None = None) -> None:
    """Nothing; writes below target (lower, if not given) go to the private folder."""
    upper, work, merged = private / "upper", private / "work", target or lower
    for folder in (upper, work, merged):
        folder.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    kernel.mount("overlay", str(merged), "overlay", options)


def _show_devices() -> None:
    """Nothing; /sys/class has an infiniband folder, bound to the node's.

    sysfs takes no new folder, hence the overlay. Only its mount points are used of it: network
    devices come from sysfs itself, and the invented ones straight from their folder, so that
    neither is ever stale.
    """
    mount_points, network = f"{PRIVATE}/class", f"{PRIVATE}/net"
    Path(mount_points, "infiniband").mkdir(parents=True)
    _bind_at("/sys/class/net", network)
    kernel.mount("overlay", "/sys/class", "overlay", f"lowerdir={mount_points}:/sys/class")
    kernel.bind(network, "/sys/class/net")
    kernel.bind(f"{FOLDER}/infiniband", "/sys/class/infiniband")


def _write_etc(config: NodeConfig, settings: Mapping[str, object]) -> None:
    Path("/etc/hostname").write_text(config.name + "\n")
    Path("/etc/hosts").write_text(config.hosts)
    docker = Path("/etc/docker")
    if docker.exists():  # the machine's own settings are not the node's
        shutil.rmtree(docker)
    docker.mkdir()
    (docker / "daemon.json").write_text(json.dumps(settings, indent=2))
    _allow_keys_for_root(Path("/etc/shadow"))


def storage_driver(config: NodeConfig, *, overlay: bool) -> str:
    """The driver that copies least, by the name it has in the node's image store."""
    if config.containerd_store:
        return "overlayfs" if overlay else "native"
    return "overlay2" if overlay else "vfs"


def daemon_settings(config: NodeConfig, driver: str) -> dict[str, object]:
    """The node's daemon.json. Every path is Docker's default: the mounts make it the node's own.

    Containers use the node's network, so the engine has no bridge and no packet filter to set up.
    """
    settings: dict[str, object] = {
        "bridge": "none",
        "cgroup-parent": config.cgroup_parent,
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "iptables": False,
        "storage-driver": driver,
    }
    if config.containerd_store:
        settings["features"] = {"containerd-snapshotter": True}
    return settings


def _allow_keys_for_root(shadow: Path) -> None:
    """Nothing; root's password is `*`: none works, and sshd does not call the account locked."""
    lines = shadow.read_text().splitlines()
    changed = [
        ":".join(("root", "*", *line.split(":")[2:])) if line.startswith("root:") else line
        for line in lines
    ]
    shadow.write_text("\n".join(changed) + "\n")
