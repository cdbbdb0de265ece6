"""Owns the ways in for clients that do not speak gRPC: rooms above the client; no room knows an agent."""
