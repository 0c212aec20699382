"""Two example plugins: a filter by maintenance windows and a score by the carbon of electricity."""
