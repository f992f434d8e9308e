"""Carrying an action out: one idempotent function per action, `run` chooses.

A function here does what its action says and no more: it decides nothing, and
what it finds done already counts as done. Every one is safe when it comes late.
"""
