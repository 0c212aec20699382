"""What every process needs: clock, logs, metrics, feature gates, stop signals."""
