"""What a subscription wants of a topic: tags, or conditions on properties. Knows no log."""
