"""Owns the calls of the API: each reads its request, asks one room and shows what it answered."""
