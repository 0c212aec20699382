"""What every process needs: clock, logs, traces, metrics, feature gates, stop signals."""
