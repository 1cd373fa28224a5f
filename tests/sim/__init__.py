"""Failure schedules by the thousand on a clock that does not wait; a seed is a schedule and can be replayed."""
