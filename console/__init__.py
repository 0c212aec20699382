"""The console: pages that show the fleet, its workloads, and why they are where they are. It changes nothing."""
