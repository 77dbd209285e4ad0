"""Nodes on this machine: namespaces, each with its own engine, sshd and RoCE devices in sysfs.

From Python, as root:

    spec = LabSpec(root=Path.cwd())                    # deploy.lab.spec: spark-a and spark-b
    state = lab_up(spec, Silent())                     # deploy.lab.lifecycle; safe to repeat
    node = LabNode(spec, "spark-b")                    # deploy.lab.control: breaks it for tests
    node.run(["docker", "ps"]); node.set_port_state("rocep1s0f0", "1: DOWN"); node.power_off()
    lab_down(spec)                                     # leaves no trace; lab_status(spec) looks

Nothing is imported here, so that the process inside a node starts quickly.
"""
