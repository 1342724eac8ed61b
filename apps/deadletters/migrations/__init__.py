"""Migrations of dead letters and resend jobs."""
