"""Agents that act for people: sentences into jobs, and graphs as typed tools."""
