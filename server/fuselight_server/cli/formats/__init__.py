"""The formats of each command: functions from an outcome to text.

Invariant: a format decides only how; which findings there are is settled before it is called.
"""
