"""The program that `inv boot --install` puts on every node: standard library, Python 3.10 on."""
