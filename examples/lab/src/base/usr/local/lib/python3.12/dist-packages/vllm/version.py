"""The version, which says that this is a stand-in."""

__version__ = "0.17.1+standin"
__version_tuple__ = (0, 17, 1, "standin")
