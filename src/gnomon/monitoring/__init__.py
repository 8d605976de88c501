"""Observers of a run: alarms for rewards without right answers, and a log of metrics to build others on."""

from gnomon.monitoring.json_lines import JsonLines
from gnomon.monitoring.ringing import Alarms

__all__ = ["Alarms", "JsonLines"]
