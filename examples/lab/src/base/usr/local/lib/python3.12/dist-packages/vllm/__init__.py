"""A stand-in for vLLM: small, pure Python, and really tensor-parallel. It is not vLLM.

It has vLLM's commands, flags, routes, process titles, log lines and package layout, so that
whoever deploys vLLM over several nodes can be tried on a machine that has no GPU. Behind them
is a real decoder-only transformer: every rank loads only its shard of model.safetensors, and the
ranks add their partial results over TCP between the fabric addresses, two times a layer.

Numbers are Python floats and a token takes milliseconds for a model of some ten thousand
parameters; nothing here is meant for a real model. What the stand-in does not have it refuses
with a clear error; it never pretends.
"""

from vllm.version import __version__, __version_tuple__

__all__ = ["__version__", "__version_tuple__"]
