"""What every service needs to be run: logs, metrics, health, and a certificate that may change."""
