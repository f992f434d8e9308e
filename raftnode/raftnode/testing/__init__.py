"""Importable helpers for tests of this project and of what is built on it."""
