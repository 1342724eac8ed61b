"""Who may ask how much: clients, connections, and a loop that stands still. Knows no verb."""
