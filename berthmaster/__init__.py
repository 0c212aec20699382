"""The vocabulary every part of Berthmaster speaks. It imports none of them."""
