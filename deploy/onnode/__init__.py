"""Programs that run on a node by its own python3, given to it over ssh; nothing is installed there.

Each module is a whole program: it imports the standard library of Python 3.8 or later alone, reads
one line of JSON from stdin after its own text, and tells by lines of JSON on stdout. When stdin
ends, because the connection or whoever held it is gone, it ends too.
"""
