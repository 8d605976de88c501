"""Stored rollouts are judged again."""
