"""Nodes on this machine: namespaces, each with its own engine, sshd and RoCE devices in sysfs."""
