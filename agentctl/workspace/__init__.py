"""Owns directories that agents work in: their git state and where they come from; knows no session."""
