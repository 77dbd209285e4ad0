"""Layers over plain lists: `rows` are tokens, and a row is the list of a token's features.

Products are added with math.fsum, which rounds once: the built-in sum() rounds differently from
Python 3.12 on, and two nodes may well have different Pythons.
"""
