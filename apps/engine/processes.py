"""Names a process so that no other one, before or after, has its name. Knows Linux's /proc only."""

from pathlib import Path

# Of /proc/PID/stat, behind the name of the program.
_START_FIELD = 19


def identity(pid: int) -> str | None:
    """Return the boot and the moment in it at which a process began; None where nothing tells.

    Numbers of processes are used again, and this is not.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name of the program is in parentheses and may contain anything.
    return f"{boot}/{stat.rpartition(')')[2].split()[_START_FIELD]}"
