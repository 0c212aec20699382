"""What every process is run with: clock, logs, metrics, feature gates, crash handling, stop signals."""
