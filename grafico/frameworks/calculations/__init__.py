"""What workers compute about frameworks."""
