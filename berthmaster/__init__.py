"""The library of Berthmaster. The services and the command import it; it imports none of them."""
