"""Messages that are visible if and only if their producer's own work was done."""
